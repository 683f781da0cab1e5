/** MongoDB alone and behind a server, under the faults that it has, in real time. */
import { MongoClient } from 'mongodb'
import { afterAll } from 'vitest'
import { mongodb } from '../../src/drivers/mongodb/driver.ts'
import { alone, behindServers } from '../composition/compositions.ts'
import { compositionMatrix } from '../composition/matrix.ts'
import type { MakeStore } from '../composition/stores.ts'
import { realTime } from '../composition/time.ts'
import { withinSeconds } from '../support/mongo-client.ts'
import { againIfItFell, countFalls } from '../support/mongo-falls.ts'
import { MongoServer } from '../support/mongo-server.ts'

const server = await MongoServer.start()
countFalls()
// The Windows build may fall over when a client leaves: this one leaves after it.
const client = new MongoClient(server.url)
afterAll(async () => {
  await server.stop()
  await client.close()
})

let collections = 0

const mongoStore: MakeStore = async () => {
  const collection = `composition${(collections += 1)}`
  const drop = (): Promise<boolean> => client.db('test').dropCollection(collection, withinSeconds)
  return {
    driver: () => mongodb(client, { collection }),
    comesBackEmpty: async () => void (await drop()),
    discard: async () => void (await drop().catch(() => {})),
  }
}

const behindServer = behindServers(1)

compositionMatrix('mongodb', {
  make: mongoStore,
  time: realTime,
  ttlMs: 3000,
  retry: againIfItFell,
  cells: [
    { composition: alone, fault: 'the store comes back empty', promised: 'fenced' },
    { composition: behindServer, fault: 'the store comes back empty', promised: 'fenced' },
    { composition: behindServer, fault: 'the process in between is killed, and comes back', promised: 'exclusive' },
  ],
})

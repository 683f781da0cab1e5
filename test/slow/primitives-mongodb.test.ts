import { MongoClient } from 'mongodb'
import { afterAll, describe } from 'vitest'
import { mongodb } from '../../src/drivers/mongodb.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { againIfItFell, countFalls } from '../support/mongo-falls.ts'
import { MongoServer } from '../support/mongo-server.ts'
import { realTimeBench } from '../support/real-time-bench.ts'

const server = await MongoServer.start()
const client = new MongoClient(server.url)
countFalls()
afterAll(async () => {
  await client.close()
  await server.stop()
})

let stores = 0

describe('one server', { retry: againIfItFell }, () => {
  primitivesConformance('mongodb', {
    async open() {
      const collection = `primitives${(stores += 1)}`
      return realTimeBench(() => mongodb(client, { collection, waitMax: 100 }))
    },
  })
})

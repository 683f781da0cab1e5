import { describe } from 'vitest'
import { mongodb } from '../../src/drivers/mongodb/driver.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { clientOf } from '../support/mongo-client.ts'
import { againIfItFell } from '../support/mongo-falls.ts'
import { MongoServer } from '../support/mongo-server.ts'
import { realTimeBench } from '../support/real-time-bench.ts'

const server = await MongoServer.start()
const client = clientOf(server)

let stores = 0

describe('one server', { retry: againIfItFell }, () => {
  primitivesConformance('mongodb', {
    async open() {
      const collection = `primitives${(stores += 1)}`
      return realTimeBench(() => mongodb(client, { collection, waitMax: 100 }))
    },
  })
})

import { expect, test } from 'vitest'
import { compareWithModel } from '../../src/testing/index.ts'
import { mongoHarness } from '../support/mongo-harness.ts'
import { clientOf } from '../support/mongo-client.ts'
import { againIfItFell } from '../support/mongo-falls.ts'
import { MongoServer } from '../support/mongo-server.ts'

const server = await MongoServer.start()
const client = clientOf(server)

const options = { timeout: 300_000, retry: againIfItFell }

test.each([2, 3])('MongoDB answers as the rule does, begun with chance %i', options, async (seed) => {
  const harness = mongoHarness(client, { database: 'model', waitMin: 2, waitMax: 20 })
  const { commands, counterexample } = await compareWithModel(harness, { runs: 2000, timeLimitMs: 80_000, seed })
  expect(counterexample).toBeUndefined()
  expect(commands).toBeGreaterThanOrEqual(5000)
})

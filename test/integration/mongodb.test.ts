import { MongoClient } from 'mongodb'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { compareWithModel, conformance } from '../../src/testing/index.ts'
import { eventually } from '../support/eventually.ts'
import { mongoHarness } from '../support/mongo-harness.ts'
import { againIfItFell, forgetFalls, MongoServer } from '../support/mongo-server.ts'

const server = await MongoServer.start()
const client = new MongoClient(server.url)
afterAll(async () => {
  await client.close()
  await server.stop()
})

/** What the client kept of a server that is gone is broken, and found to be. */
const answers = (): Promise<unknown> =>
  eventually(
    () =>
      client
        .db()
        .command({ ping: 1 })
        .catch(() => undefined),
    'the server',
    20_000,
  )
beforeEach(async () => {
  forgetFalls()
  await answers()
})

const restart = async (): Promise<void> => {
  await server.kill()
  await server.start()
  await answers()
}

describe('one server', { retry: againIfItFell }, () => {
  conformance('mongodb', mongoHarness(client, { database: 'conformance', restart, waitMax: 200 }))
})

describe('one command, or compare-and-swap', { retry: againIfItFell }, () => {
  test('answer as the rule does on thousands of random commands', { timeout: 120_000 }, async () => {
    const harness = mongoHarness(client, { database: 'model', waitMin: 2, waitMax: 20 })
    const { commands, counterexample } = await compareWithModel(harness, { runs: 130, timeLimitMs: 12_000 })
    expect(counterexample).toBeUndefined()
    expect(commands).toBeGreaterThanOrEqual(1000)
  })
})

/** DynamoDB at length: restarts, and the promises of the client and of what is built on it, in real time. */
import { afterAll, describe, expect, test } from 'vitest'
import { dynamodb } from '../../src/drivers/dynamodb/driver.ts'
import {
  clientConformance,
  compareWithModel,
  conformance,
  primitivesConformance,
  type Bench,
} from '../../src/testing/index.ts'
import { alone, behindServers } from '../composition/compositions.ts'
import { compositionMatrix } from '../composition/matrix.ts'
import type { MakeStore } from '../composition/stores.ts'
import { realTime } from '../composition/time.ts'
import { lifetimeTest } from '../lifetime/suite.ts'
import { dynamodbHarness } from '../support/dynamodb-harness.ts'
import {
  dynamodbClient,
  dynamodbCredentials,
  DynamodbServer,
  dynamodbUrl,
  freshTable,
} from '../support/dynamodb-server.ts'
import { DeleteTableCommand } from '@aws-sdk/client-dynamodb'
import { realTimeBench } from '../support/real-time-bench.ts'

const [server, durable] = await Promise.all([DynamodbServer.start(), DynamodbServer.start({ isDurable: true })])
const [client, ofDurable] = [dynamodbClient(server.port), dynamodbClient(durable.port)]
afterAll(async () => {
  client.destroy()
  ofDurable.destroy()
  await Promise.all([server.stop(), durable.stop()])
})

const restart = async (): Promise<void> => {
  await durable.kill()
  await durable.start()
}
const quick = { waitMin: 5, waitMax: 100, readsPerSecond: 1000, timeout: '30s' } as const

describe('with its data on disk', () => {
  conformance('dynamodb', dynamodbHarness(ofDurable, { restart, ...quick }))
})

test.each([2, 3])('DynamoDB answers as the rule does, begun with chance %i', { timeout: 300_000 }, async (seed) => {
  const harness = dynamodbHarness(client, quick)
  const { commands, counterexample } = await compareWithModel(harness, { runs: 2000, timeLimitMs: 80_000, seed })
  expect(counterexample).toBeUndefined()
  expect(commands).toBeGreaterThanOrEqual(1000)
})

const inRealTime = {
  apart: true,
  open: async (): Promise<Bench> => {
    const table = freshTable()
    return realTimeBench(() => dynamodb(client, { table, createTable: true, ...quick }))
  },
}
clientConformance('dynamodb', inRealTime)
primitivesConformance('dynamodb', inRealTime)

const store: MakeStore = async () => {
  const table = freshTable()
  const drop = (): Promise<unknown> => client.send(new DeleteTableCommand({ TableName: table })).catch(() => {})
  const make = async (): Promise<void> => {
    const driver = dynamodb(client, { table, createTable: true })
    await driver.open()
    await driver.close()
  }
  return {
    driver: () => dynamodb(client, { table, createTable: true, ...quick }),
    async comesBackEmpty() {
      await drop()
      await make()
    },
    discard: async () => void (await drop()),
  }
}
const behindServer = behindServers(1)

compositionMatrix('dynamodb', {
  make: store,
  time: realTime,
  ttlMs: 3000,
  cells: [
    { composition: alone, fault: 'the store comes back empty', promised: 'fenced' },
    { composition: behindServer, fault: 'the store comes back empty', promised: 'fenced' },
    { composition: behindServer, fault: 'the process in between is killed, and comes back', promised: 'exclusive' },
    { composition: alone, fault: 'the holder is cut off', promised: 'exclusive' },
    { composition: behindServer, fault: 'the holder is cut off', promised: 'exclusive' },
  ],
})

describe('nothing survives close', () => {
  const { accessKeyId, secretAccessKey } = dynamodbCredentials
  lifetimeTest({
    title: 'dynamodb',
    kinds: ['threaded', 'severed'],
    environment: {
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
      // The SDK warns of Node 20.
      NODE_NO_WARNINGS: '1',
    },
    url: async () => dynamodbUrl(server.port, freshTable()),
  })
})

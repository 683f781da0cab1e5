import { afterAll, expect, test } from 'vitest'
import { compareWithModel, conformance } from '../../src/testing/index.ts'
import { dynamodbHarness } from '../support/dynamodb-harness.ts'
import { dynamodbClient, DynamodbServer } from '../support/dynamodb-server.ts'
import { rounds } from '../support/extent.ts'

const server = await DynamodbServer.start()
const client = dynamodbClient(server.port)
afterAll(async () => {
  client.destroy()
  await server.stop()
})

conformance('dynamodb', dynamodbHarness(client, { waitMin: 2, waitMax: 50, timeout: '30s' }))

test('DynamoDB answers as the rule does on random commands', async () => {
  const harness = dynamodbHarness(client, { waitMin: 2, waitMax: 20, timeout: '30s' })
  const { commands, counterexample } = await compareWithModel(harness, { runs: rounds(10, 100), timeLimitMs: 100_000 })
  expect(counterexample).toBeUndefined()
  expect(commands).toBeGreaterThanOrEqual(rounds(200, 2000))
})

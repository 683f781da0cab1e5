import { afterAll, describe } from 'vitest'
import { lifetimeTest } from '../lifetime/suite.ts'
import { dynamodbCredentials, DynamodbServer, dynamodbUrl, freshTable } from '../support/dynamodb-server.ts'

const server = await DynamodbServer.start()
afterAll(() => server.stop())

const { accessKeyId, secretAccessKey } = dynamodbCredentials

describe('nothing survives close', () => {
  lifetimeTest({
    title: 'dynamodb',
    kinds: ['threaded', 'collected'],
    // The SDK warns of Node 20.
    environment: { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, NODE_NO_WARNINGS: '1' },
    url: async () => dynamodbUrl(server.port, freshTable()),
  })
})

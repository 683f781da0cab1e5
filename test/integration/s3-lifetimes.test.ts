import { afterAll, describe } from 'vitest'
import { lifetimeTest } from '../lifetime/suite.ts'
import { credentialsForTests, S3Server } from '../support/s3-server.ts'

const server = await S3Server.start()
afterAll(() => server.stop())

const { accessKeyId, secretAccessKey } = credentialsForTests

describe('nothing survives close', () => {
  lifetimeTest({
    title: 's3',
    kinds: [],
    // Node's own fetch keeps connections for a while.
    keepsSockets: true,
    // The bucket has no lifecycle rule, which is warned of.
    environment: { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, NODE_NO_WARNINGS: '1' },
    url: async () => server.url('lifetimes'),
  })
})

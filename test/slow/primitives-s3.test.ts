import { afterAll } from 'vitest'
import { primitivesConformance } from '../../src/testing/index.ts'
import { S3Server } from '../support/s3-server.ts'
import { s3Bench } from '../support/s3-store.ts'

const server = await S3Server.start()
afterAll(() => server.stop())

primitivesConformance('s3', { apart: true, open: async () => s3Bench(server) })

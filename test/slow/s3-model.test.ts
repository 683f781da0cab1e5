import { afterAll, expect, test } from 'vitest'
import { compareWithModel } from '../../src/testing/index.ts'
import { s3Harness } from '../support/s3-harness.ts'
import { S3Server } from '../support/s3-server.ts'

const server = await S3Server.start()
afterAll(() => server.stop())

test.each([2, 3])('S3 answers as the rule does, begun with chance %i', { timeout: 300_000 }, async (seed) => {
  const options = { runs: 2000, timeLimitMs: 80_000, seed }
  const { commands, counterexample } = await compareWithModel(s3Harness(server), options)
  expect(counterexample).toBeUndefined()
  expect(commands).toBeGreaterThanOrEqual(1000)
})

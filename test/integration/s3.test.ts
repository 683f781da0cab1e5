import { afterAll, expect, test } from 'vitest'
import { compareWithModel, conformance } from '../../src/testing/index.ts'
import { rounds } from '../support/extent.ts'
import { s3Harness } from '../support/s3-harness.ts'
import { S3Server } from '../support/s3-server.ts'

const server = await S3Server.start()
afterAll(() => server.stop())

test('the server of these tests lets one of twenty writers win, on either condition', async () => {
  const write = async (Key: string, Body: string, condition: object): Promise<boolean> => {
    try {
      await server.client.putObject({ Bucket: server.bucket, Key, Body, ...condition })
      return true
    } catch (error) {
      expect((error as { name?: string }).name).toBe('PreconditionFailed')
      return false
    }
  }
  const race = async (Key: string, condition: object): Promise<number> => {
    const won = await Promise.all(
      Array.from({ length: 20 }, (_, writer) => write(Key, `${JSON.stringify(condition)} by ${writer}`, condition)),
    )
    return won.filter(Boolean).length
  }
  for (let round = 0; round < rounds(1, 20); round += 1) {
    const name = `race-${round}`
    expect(await race(name, { IfNoneMatch: '*' })).toBe(1)
    const { ETag } = await server.client.headObject({ Bucket: server.bucket, Key: name })
    expect(await race(name, { IfMatch: ETag })).toBe(1)
  }
})

conformance('s3', s3Harness(server))

test('s3 answers as the rule does on random commands', { timeout: 180_000 }, async () => {
  const harness = s3Harness(server)
  const { commands, counterexample } = await compareWithModel(harness, { runs: rounds(5, 100), timeLimitMs: 150_000 })
  expect(counterexample).toBeUndefined()
  expect(commands).toBeGreaterThanOrEqual(rounds(80, 2000))
})

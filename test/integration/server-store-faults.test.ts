/** When the store fails, callers learn that it failed. Where it is, and as whom the server signs in, is for the log alone. */
import { describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { http } from '../../src/drivers/http/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { LeaseholdError } from '../../src/index.ts'
import { serve, type ServeOptions } from '../../src/server/index.ts'
import { dashboard } from '../../src/server/operators.ts'
import { get, post, postRequests } from '../support/called.ts'
import { claimOf } from '../support/claims.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisServer } from '../support/redis-server.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

const rights = ['lock', 'read', 'evict'] as const
const tokens = [
  { name: 'worker', token: tokenOf('worker'), namespaces: ['billing'], rights },
  { name: 'all', token: tokenOf('all'), namespaces: '*', rights },
] as const
const key = 'billing/named:invoice'

/** Every answer of a server whose store fails, and what it logged. */
async function answersOf(options: ServeOptions, fail: () => Promise<void>) {
  const complaints: string[] = []
  const logger = { debug: () => {}, info: () => {}, warn: (message: string) => void complaints.push(message) }
  const { url } = await startServer({ ...options, logger, tokens, routes: dashboard({ logger }) })
  await fail()
  const answers: { status: number; text: string }[] = []
  for (const token of [tokenOf('worker'), tokenOf('all')]) {
    const eviction = JSON.stringify({ key, fence: 1, reason: 'gone' })
    answers.push(
      await postRequests(url, [{ op: 'claim', claim: claimOf(key) }], token),
      await postRequests(url, [{ op: 'renew', key, id: 'x', ttlMs: 1000 }], token),
      await get(`${url}/v1/keys?key=${key}`, token),
      await get(`${url}/v1/store`, token),
      await get(`${url}/v1/locks?namespace=billing`, token),
      await post(`${url}/v1/evictions`, eviction, token),
      await get(`${url}/metrics`, token),
    )
  }
  answers.push(await get(`${url}/healthz`))
  return { answers, complaints }
}

describe('a store that is gone is not described to its callers', () => {
  test('Redis', { timeout: 60_000 }, async () => {
    const server = await RedisServer.start()
    onTestFinished(() => server.stop())
    const { port } = new URL(server.url)
    const { answers, complaints } = await answersOf({ driver: redis(server.url) }, () => server.stop())
    for (const { text } of answers) expect(text).not.toMatch(new RegExp(`${port}|127\\.0\\.0\\.1|ECONN`))
    expect(answers.filter(({ text }) => text.includes('The store behind this server failed'))).not.toHaveLength(0)
    expect(complaints.join('\n')).toContain('the store failed: ')
  })

  test('PostgreSQL', { timeout: 60_000 }, async () => {
    const server = await PostgresServer.start()
    onTestFinished(() => server.destroy())
    const { port } = new URL(server.url)
    const { answers, complaints } = await answersOf({ driver: postgres(server.url) }, () => server.destroy())
    for (const { text } of answers) expect(text).not.toMatch(new RegExp(`${port}|127\\.0\\.0\\.1|ECONN|postgres:`))
    expect(complaints.join('\n')).toContain('the store failed: ')
  })

  test('another server', { timeout: 60_000 }, async () => {
    const inner = await serve({ store: 'memory:', port: 0 })
    onTestFinished(() => inner.close())
    const { port } = new URL(inner.url)
    const { answers, complaints } = await answersOf({ driver: http(inner.url) }, () => inner.close())
    for (const { text } of answers) expect(text).not.toMatch(new RegExp(`${port}|127\\.0\\.0\\.1|ECONN`))
    expect(complaints.join('\n')).toContain(port)
  })
})

/** A store that fails with this error, once it is open. */
function failing(fault: unknown): LockDriver {
  const driver = memory()
  driver.send = () => Promise.reject(fault)
  driver.list = () => Promise.reject(fault)
  driver.dataAgeMs = () => Promise.reject(fault)
  return driver
}

const secret = 'Login of dbadmin at redis://dbadmin:s3cret@10.1.2.3:7000 failed for /srv/locks.sqlite'

test.each([
  ['UNAVAILABLE', { reason: 'network', retryAfterMs: 1000 }],
  ['UNAVAILABLE', { reason: 'auth' }],
  ['UNAVAILABLE', { reason: secret }],
  ['UNAVAILABLE', {}],
  ['CLOSED', {}],
  ['UNSUPPORTED', {}],
] as const)('%s of a store has no word of the store in it: %j', async (code, details) => {
  const driver = failing(new LeaseholdError(code, secret, details))
  const { answers, complaints } = await answersOf({ driver }, async () => {})
  for (const { text } of answers) expect(text).not.toMatch(/dbadmin|10\.1\.2\.3|s3cret|srv/)
  expect(complaints.join('\n')).toContain('10.1.2.3:7000')
  expect(complaints.join('\n')).not.toContain('s3cret')
})

test('a caller still learns the reason, and when to come back', async () => {
  const driver = failing(new LeaseholdError('UNAVAILABLE', secret, { reason: 'busy', retryAfterMs: 1500 }))
  const { url } = await startServer({ driver })
  const error = { code: 'UNAVAILABLE', reason: 'busy', retryAfterMs: 1500 }
  expect(await get(`${url}/v1/keys`)).toMatchObject({ status: 503, value: { error } })
  const sent = await postRequests(url, [{ op: 'claim', claim: claimOf(key) }])
  expect(sent.value).toMatchObject({ statuses: [{ state: 'unknown', error }] })
})

test('that the store refuses the login of the server is not told as a fault of the token', async () => {
  const driver = failing(new LeaseholdError('UNAVAILABLE', secret, { reason: 'auth' }))
  const { url } = await startServer({ driver })
  expect(await get(`${url}/v1/keys`)).toMatchObject({ value: { error: { reason: 'configuration' } } })
})

test('a request out of limits is explained, and does not pass for a fault of the store in the log', async () => {
  const complaints: string[] = []
  const logger = { debug: () => {}, info: () => {}, warn: (message: string) => void complaints.push(message) }
  const { url } = await startServer({ driver: memory(), logger })
  const wishes = [{}, { ttlMs: Number.MAX_SAFE_INTEGER }]
  const { value } = await postRequests(
    url,
    wishes.map((wish) => ({ op: 'claim', claim: claimOf(key, wish) })),
  )
  const error = { code: 'INVALID', message: expect.stringMatching(/ttlMs must be/) }
  expect(value).toMatchObject({ statuses: [{ state: 'held' }, { state: 'unknown', error }] })
  expect(complaints).toEqual([])
})

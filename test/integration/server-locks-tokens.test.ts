/** Calls for single locks are held to the same rules as batches: rights by prefix, the audit, rates, and the end of a token. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import type { AuditRecord } from '../../src/server/audit/audit-log.ts'
import { claimMark } from '../../src/server/audit/audit-log.ts'
import type { TokenOptions } from '../../src/server/index.ts'
import { around } from '../support/around.ts'
import { get } from '../support/called.ts'
import { deferred } from '../support/deferred.ts'
import { eventually } from '../support/eventually.ts'
import { leaseIn, LockCalls } from '../support/lock-calls.ts'
import { startServer } from '../support/started-server.ts'
import { folderForTest } from '../support/test-folder.ts'
import { tokenOf } from '../support/tokens.ts'

const night: TokenOptions = {
  name: 'night',
  token: tokenOf('night'),
  prefixes: ['builds/named:nightly/'],
  rights: ['lock', 'read'],
}
const root: TokenOptions = { name: 'root', token: tokenOf('root'), namespaces: '*', rights: ['admin'] }
const tokens: readonly TokenOptions[] = [night, root]
const [byNight, byRoot] = [{ token: tokenOf('night') }, { token: tokenOf('root') }]

/** A server with an audit, and its lines once there are as many. */
async function startAudited(driver: LockDriver = memory()) {
  const file = path.join(folderForTest('audit'), 'audit.jsonl')
  const server = await startServer({ tokens, driver, audit: { file } })
  const read = (): readonly AuditRecord[] =>
    readFileSync(file, 'utf8')
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as AuditRecord)
  const lines = (count: number): Promise<readonly AuditRecord[]> =>
    eventually(() => read().length >= count && read(), `${count} lines of the audit`)
  return { server, file, lines, builds: new LockCalls(server.url, 'builds') }
}

/** How many wait for a lock, as an administrator sees it. */
async function waitingFor(calls: LockCalls, name: string): Promise<number> {
  return ((await calls.get(name, byRoot)).value as { waiting: number }).waiting
}

test('what a call changes is in the audit, with the fence and without the id', async () => {
  const { builds, lines, file } = await startAudited()
  const lease = await builds.take('nightly/a', byNight)
  const waiting = builds.take('nightly/a', { ...byRoot, query: 'wait=60s' })
  await eventually(async () => (await waitingFor(builds, 'nightly/a')) === 1, 'the call that waits')
  await builds.delete('nightly/a', { id: lease.id, ...byNight })
  const next = await waiting
  const own = { by: 'night', from: '127.0.0.1', key: 'builds/named:nightly/a', claim: claimMark(lease.id) }
  const other = { ...own, by: 'root', claim: claimMark(next.id) }
  const records = await lines(4)
  expect(records).toMatchObject([
    { event: 'change', ...own, op: 'claim', fence: lease.fence, outcome: 'held' },
    { event: 'change', ...other, op: 'claim', outcome: 'waiting' },
    {},
    {},
  ])
  // The store may tell of the grant before it answers the release.
  expect(records.slice(2)).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ event: 'change', ...own, op: 'release', outcome: 'released' }),
      expect.objectContaining({ event: 'grant', ...other, fence: next.fence, outcome: 'held' }),
    ]),
  )
  for (const id of [lease.id, next.id]) expect(readFileSync(file, 'utf8')).not.toContain(id)
})

test('a call outside of the prefixes of its token is refused, and the audit says so', async () => {
  const { builds, lines, server } = await startAudited()
  const id = builds.newId()
  const answers = [
    await builds.put('release', byNight),
    await builds.renew('release', { id, ...byNight }),
    await builds.delete('release', { id, ...byNight }),
    await builds.get('release', byNight),
    await builds.put('nightly', byNight),
  ]
  for (const answer of answers) {
    expect(answer).toMatchObject({ status: 403, value: { code: 'UNAVAILABLE', reason: 'auth', status: 403 } })
    expect(answer.headers.get('content-type')).toBe('application/problem+json')
  }
  const refused = { event: 'refused', by: 'night', from: '127.0.0.1', why: expect.stringMatching(/token "night"/) }
  const key = 'builds/named:release'
  expect(await lines(5)).toMatchObject([
    { ...refused, op: 'claim', key },
    { ...refused, op: 'renew', key, claim: claimMark(id) },
    { ...refused, op: 'release', key, claim: claimMark(id) },
    { ...refused, route: '/v1/locks/{namespace}/{name}' },
    { ...refused, op: 'claim', key: 'builds/named:nightly' },
  ])
  expect((await builds.get('release', byRoot)).value).toMatchObject({ held: 0, waiting: 0 })
  const metrics = await get(`${server.url}/metrics`, tokenOf('root'))
  expect(metrics.text).toContain('/v1/locks/{namespace}/{name}')
  expect(metrics.text).not.toContain('nightly')
})

test('each call counts against the rate of its token', async () => {
  let now = 0
  const environment = { ...systemEnvironment(), now: () => now }
  const { url } = await startServer({ tokens, environment, rateLimits: { perToken: { perSecond: 0.5, burst: 4 } } })
  const builds = new LockCalls(url, 'builds')
  const lease = await builds.take('nightly/a', byNight)
  expect((await builds.renew('nightly/a', { id: lease.id, ...byNight })).status).toBe(200)
  expect((await builds.get('nightly/a', byNight)).status).toBe(200)
  expect((await builds.delete('nightly/a', { id: lease.id, ...byNight })).status).toBe(200)
  const refused = await builds.put('nightly/a', byNight)
  expect(refused).toMatchObject({ status: 429, value: { code: 'UNAVAILABLE', reason: 'busy', retryAfterMs: 2000 } })
  expect(refused.headers.get('retry-after')).toBe('2')
  expect(refused.headers.get('content-type')).toBe('application/problem+json')
  expect((await builds.put('nightly/b', byRoot)).status).toBe(200)
  now += 2000
  expect((await builds.put('nightly/a', byNight)).status).toBe(200)
})

describe('a call that waits', () => {
  test.each(['made by the server', 'of its own'])(
    'ends with its token and leaves the queue, id %s; calls of other tokens wait on',
    async (whose) => {
      const { server, builds, lines } = await startAudited()
      const holder = await builds.take('nightly/a', byRoot)
      const id = whose === 'of its own' ? { id: builds.newId() } : {}
      const revoked = builds.put('nightly/a', { ...byNight, ...id, query: 'wait=60s' })
      await eventually(async () => (await waitingFor(builds, 'nightly/a')) === 1, 'the call that waits')
      const kept = builds.put('nightly/a', { ...byRoot, query: 'wait=60s' })
      await eventually(async () => (await waitingFor(builds, 'nightly/a')) === 2, 'both calls')
      server.replaceTokens([root])
      const answer = await revoked
      expect(answer).toMatchObject({ status: 401, value: { code: 'UNAVAILABLE', reason: 'auth' } })
      expect(answer.headers.get('content-type')).toBe('application/problem+json')
      expect(await waitingFor(builds, 'nightly/a')).toBe(1)
      await builds.delete('nightly/a', { id: holder.id, ...byRoot })
      expect(leaseIn(await kept).fence).toBeGreaterThan(holder.fence)
      const ended = (await lines(5)).find(({ event }) => event === 'sign-in-failed')
      expect(ended).toMatchObject({ by: 'night', route: '/v1/locks/{namespace}/{name}' })
    },
  )

  test('ends when its token expires', async () => {
    const expires = new Date(Date.now() + 1500).toISOString()
    const { url } = await startServer({ tokens: [{ ...night, expires }, root] })
    const builds = new LockCalls(url, 'builds')
    await builds.take('nightly/a', byRoot)
    expect(await builds.put('nightly/a', { ...byNight, query: 'wait=60s' })).toMatchObject({ status: 401 })
    expect(await waitingFor(builds, 'nightly/a')).toBe(0)
  })
})

test('a token that is revoked before its claim is answered learns of no grant, and holds nothing', async () => {
  const inner = memory()
  const [sent, answered] = [deferred(), deferred()]
  const send: LockDriver['send'] = async (requests) => {
    const statuses = await inner.send(requests)
    if (requests.every(({ op }) => op !== 'claim')) return statuses
    sent.resolve()
    await answered.promise
    return statuses
  }
  const { server, builds } = await startAudited(around(inner, { send }))
  const call = builds.put('nightly/a', byNight)
  await sent.promise
  expect((await builds.get('nightly/a', byRoot)).value).toMatchObject({ held: 1 })
  server.replaceTokens([root])
  answered.resolve()
  expect(await call).toMatchObject({ status: 401 })
  expect((await builds.get('nightly/a', byRoot)).value).toMatchObject({ held: 0 })
})

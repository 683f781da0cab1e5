/** What a caller may send or ask for, in front of real stores: none of it is to reach further than its token. */
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Claim, KeyPage, Request, Runner } from '../../src/core/contract/driver.ts'
import { RedisKeyspace } from '../../src/drivers/redis/keyspace.ts'
import { connect } from '../../src/index.ts'
import { serve, type LeaseholdServer, type TokenOptions } from '../../src/server/index.ts'
import { dashboard } from '../../src/server/operators.ts'
import { get, postRequests } from '../support/called.ts'
import { claimOf } from '../support/claims.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisServer } from '../support/redis-server.ts'
import { tokenOf } from '../support/tokens.ts'

const redisServer = await RedisServer.start()
const postgresServer = await PostgresServer.start()
afterAll(() => Promise.all([redisServer.stop(), postgresServer.destroy()]))

const tokens: readonly TokenOptions[] = [
  { name: 'all', token: tokenOf('all'), namespaces: '*', rights: ['lock', 'read', 'evict'] },
  { name: 'worker', token: tokenOf('worker'), namespaces: ['billing'], rights: ['lock', 'read'] },
]

async function start(store: string): Promise<LeaseholdServer> {
  const server = await serve({ store, port: 0, tokens, routes: dashboard() })
  onTestFinished(() => server.close())
  return server
}

describe('a listing of Redis', () => {
  test('shows nothing of other namespaces, whatever place it is to go on from', async () => {
    const { url } = await start(redisServer.url)
    const [own, foreign] = ['billing/named:invoice', 'payroll/named:salaries'] as const
    const claims = [own, foreign].map((key) => ({ op: 'claim', claim: claimOf(key) }) as const)
    await postRequests(url, claims, tokenOf('all'))
    const names = [own, foreign].map((key) => new RedisKeyspace('leasehold:').record(key))
    const place = encodeURIComponent(JSON.stringify(['', 'end', [...names, null, 7]]))
    const listed = await get(`${url}/v1/keys?prefix=billing/&after=${place}`, tokenOf('worker'))
    expect(listed.status).toBe(200)
    expect((listed.value as KeyPage).keys.map(({ key }) => key)).toEqual([own])
  })

  test('goes on from page to page, over HTTP and on the dashboard', async () => {
    const { url } = await start(redisServer.url)
    const count = 700
    const names = Array.from({ length: count }, (_, index) => `number-${index}-${'é'.repeat(100)}`)
    const claims = names.map((name) => ({ op: 'claim', claim: claimOf(`pages/named:${name}`) }) as const)
    await postRequests(url, claims, tokenOf('all'))

    const locks = await connect(url.replace('//', `//${tokenOf('all')}@`), { namespace: 'pages' })
    onTestFinished(() => locks.close())
    const seen = new Set<string>()
    for (let after: string | undefined, pages = 0; pages < count; pages += 1) {
      const page = await locks.list({ ...(after !== undefined && { after }) })
      for (const { scope } of page.locks) seen.add(scope)
      after = page.next
      if (after === undefined) break
    }
    expect(seen).toEqual(new Set(names))

    const shown = new Set<string>()
    for (let after: string | undefined = '', pages = 0; after !== undefined && pages < count; pages += 1) {
      const place: string = after === '' ? '' : `&after=${after}`
      const page = await get(`${url}/v1/locks?namespace=pages&limit=10${place}`, tokenOf('all'))
      const { locks: some, next } = page.value as { locks: { scope: string }[]; next?: string }
      for (const { scope } of some) shown.add(scope)
      after = next
    }
    expect(shown).toEqual(new Set(names))
  })
})

describe.each([
  ['Redis', () => redisServer.url],
  ['PostgreSQL', () => postgresServer.url],
] as const)('what one caller sends to %s', (_, url) => {
  test.each([
    ['NUL characters', { nul: '\0' }],
    ['half a character', { half: '\ud800' }],
  ])('with %s in its metadata takes nothing from those whose requests go with it', async (what, metadata) => {
    const server = await start(url())
    const runner: Runner = { ...claimOf('').runner, id: 'quote " and \\', metadata }
    const claimed = (name: string, wish: Partial<Claim> = {}): Request => ({
      op: 'claim',
      claim: claimOf(`billing/named:${what} ${name}`, { runner, ...wish }),
    })
    const hold = await postRequests(server.url, [claimed('strange')], tokenOf('worker'))
    expect(hold.value).toMatchObject({ statuses: [{ state: 'held' }] })
    const stranger = { ...runner, id: 'quote " and' }
    const { value } = await postRequests(
      server.url,
      [
        claimed('another', { runner: claimOf('').runner }),
        claimed('strange', { evict: 'same-runner', runner: stranger }),
        claimed('strange', { evict: 'same-runner' }),
      ],
      tokenOf('all'),
    )
    expect(value).toMatchObject({
      statuses: [
        { state: 'held' },
        { state: 'waiting' },
        { state: 'held', after: { how: 'evicted', runner: { id: runner.id } } },
      ],
    })
  })

  test('with a NUL character in a name is refused before the store sees it', async () => {
    const server = await start(url())
    const good: Request = { op: 'claim', claim: claimOf('billing/named:good') }
    const key = 'billing/named:bad'
    const bad: readonly Request[] = [
      { op: 'claim', claim: claimOf('billing/named:\0') },
      { op: 'claim', claim: claimOf(key, { id: '\0' }) },
      { op: 'claim', claim: claimOf(key, { replaces: '\0' }) },
      { op: 'renew', key, id: '\0', ttlMs: 1000 },
      { op: 'release', key, id: '\0' },
      { op: 'withdraw', key, id: '\0' },
      { op: 'evict', key, fence: 1, reason: '\0' },
    ]
    for (const request of bad) {
      const { status, value } = await postRequests(server.url, [good, request], tokenOf('all'))
      expect({ status, value }).toMatchObject({
        status: 400,
        value: { error: { message: expect.stringMatching(/requests\[1\].*NUL/) } },
      })
    }
    for (const query of ['key=%00', 'prefix=%00', 'after=%00']) {
      expect(await get(`${server.url}/v1/keys?${query}`, tokenOf('all'))).toMatchObject({ status: 400 })
    }
  })
})

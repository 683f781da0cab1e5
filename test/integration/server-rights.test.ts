import { createHash } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Request } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { createLocks } from '../../src/index.ts'
import { http } from '../../src/drivers/http/driver.ts'
import { serve, type ServeOptions, type TokenOptions } from '../../src/server/index.ts'
import { get, post, postRequests } from '../support/called.ts'
import { claimOf, claiming } from '../support/claims.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

const tokens: readonly TokenOptions[] = [
  { name: 'all', token: tokenOf('all'), namespaces: '*', rights: ['admin'] },
  { name: 'worker', token: tokenOf('worker'), namespaces: ['billing'], rights: ['lock', 'read'] },
  { name: 'viewer', token: tokenOf('viewer'), namespaces: ['billing'], rights: ['read'] },
  { name: 'warden', token: tokenOf('warden'), namespaces: ['billing'], rights: ['evict'] },
  { name: 'stranger', token: tokenOf('stranger'), namespaces: ['other'], rights: ['lock', 'read', 'evict'] },
  { name: 'hashed', sha256: sha256(tokenOf('hashed')), namespaces: ['billing'], rights: ['lock'] },
]

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

const start = (options: Partial<ServeOptions> = {}) => startServer({ tokens, ...options })

const key = 'billing/named:invoice'
const session = { 'leasehold-session': 'a'.repeat(22) }
const refused = (reason: RegExp) => ({
  error: { code: 'UNAVAILABLE', reason: 'auth', message: expect.stringMatching(reason) },
})

/** Every route that asks for a token, and the one token of ours that lacks the right for it. */
const routes: readonly (readonly [
  name: string,
  lacking: string,
  call: (url: string, token?: string) => ReturnType<typeof get>,
])[] = [
  ['POST /v1/requests', 'viewer', (url, token) => postRequests(url, [{ op: 'claim', claim: claimOf(key) }], token)],
  ['GET /v1/keys', 'hashed', (url, token) => get(`${url}/v1/keys?key=${key}`, token)],
  ['GET /v1/notifications', 'viewer', (url, token) => get(`${url}/v1/notifications`, token, session)],
  ['GET /metrics', 'hashed', (url, token) => get(`${url}/metrics`, token)],
]

describe('a token', () => {
  test.each([
    ...routes,
    ['GET /v1/store', '', (url, token) => get(`${url}/v1/store`, token)] as (typeof routes)[number],
  ])('is asked for by %s, and must be known', async (_, __, call) => {
    const { url } = await start()
    const without = await call(url)
    expect(without).toMatchObject({ status: 401, value: refused(/wants a token/) })
    expect(without.headers.get('www-authenticate')).toBe('Bearer')
    expect(await call(url, 'wrong-0123456789abcdef')).toMatchObject({ status: 401, value: refused(/not know/) })
  })

  test.each(routes)('without the right for %s is told which it lacks', async (_, lacking, call) => {
    const { url } = await start()
    expect(await call(url, tokenOf(lacking))).toMatchObject({ status: 403, value: refused(/lacks the right '\w+'/) })
  })

  test('of an administrator leaves fences to mint, however far it lifts them', async () => {
    const { url } = await start()
    const own = claimOf(key)
    await postRequests(url, [{ op: 'claim', claim: own }], tokenOf('all'))
    const renewal = { op: 'renew', key, id: own.id, ttlMs: 60_000 } as const
    const last = { ...renewal, fenceFloor: Number.MAX_SAFE_INTEGER }
    expect(await postRequests(url, [last], tokenOf('all'))).toMatchObject({ status: 400 })
    const lifted = await postRequests(url, [{ ...renewal, fenceFloor: 2 ** 52 }], tokenOf('all'))
    expect(lifted.value).toMatchObject({ statuses: [{ state: 'held', fence: 2 ** 52 }] })
    const other = await postRequests(url, [{ op: 'claim', claim: claimOf('other/named:x') }], tokenOf('all'))
    expect(other.value).toMatchObject({ statuses: [{ state: 'held', fence: expect.any(Number) }] })
  })

  test('is good for its own namespaces only', async () => {
    const { url } = await start()
    const foreign = refused(/"stranger" is not for the namespace "billing"/)
    const claim: Request = { op: 'claim', claim: claimOf(key) }
    expect(await postRequests(url, [claim], tokenOf('stranger'))).toMatchObject({ status: 403, value: foreign })
    expect(await get(`${url}/v1/keys?key=${key}`, tokenOf('stranger'))).toMatchObject({ status: 403, value: foreign })
    const prefix = await get(`${url}/v1/keys?prefix=billing/`, tokenOf('stranger'))
    expect(prefix).toMatchObject({ status: 403, value: foreign })
    for (const query of ['', '?prefix=bill', '?prefix=billing', '?key=billing']) {
      const listed = await get(`${url}/v1/keys${query}`, tokenOf('worker'))
      expect(listed).toMatchObject({ status: 403, value: refused(/a prefix 'NAMESPACE\/'/) })
    }
    expect(await get(`${url}/v1/keys?prefix=billing/`, tokenOf('worker'))).toMatchObject({ status: 200 })
    expect(await get(`${url}/v1/keys`, tokenOf('all'))).toMatchObject({ status: 200 })
    const bare: Request = { op: 'claim', claim: claimOf('billing') }
    expect(await postRequests(url, [bare], tokenOf('worker'))).toMatchObject({ status: 400 })
    const renewal: Request = { op: 'renew', key: 'billing', id: 'x', ttlMs: 1000 }
    expect(await postRequests(url, [renewal], tokenOf('worker'))).toMatchObject({ status: 403 })
  })

  test('may evict, or claim by force, only with the right to', async () => {
    const { url } = await start()
    const { value } = await postRequests(url, [{ op: 'claim', claim: claimOf(key) }], tokenOf('worker'))
    const [{ fence }] = (value as { statuses: [{ fence: number }] }).statuses
    const evict: Request = { op: 'evict', key, fence, reason: 'a test' }
    const force: Request = { op: 'claim', claim: claimOf(key, { evict: 'all' }) }
    const lacks = refused(/"worker" lacks the right 'evict'/)
    expect(await postRequests(url, [evict], tokenOf('worker'))).toMatchObject({ status: 403, value: lacks })
    expect(await postRequests(url, [force], tokenOf('worker'))).toMatchObject({ status: 403, value: lacks })
    expect(await postRequests(url, [force], tokenOf('warden'))).toMatchObject({ status: 403 })
    expect((await postRequests(url, [evict], tokenOf('warden'))).value).toMatchObject({
      statuses: [{ state: 'absent', reason: 'evicted' }],
    })
  })

  test('that lacks the right for one request of a call spoils none of the others, and that one is not carried out', async () => {
    const { url } = await start()
    const held = claimOf(key)
    await postRequests(url, [claiming(held)], tokenOf('all'))
    const force: Request = { op: 'claim', claim: claimOf(key, { evict: 'all' }) }
    const plain: Request = { op: 'claim', claim: claimOf('billing/named:other') }
    expect((await postRequests(url, [force, plain], tokenOf('worker'))).value).toMatchObject({
      statuses: [{ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'auth' } }, { state: 'held' }],
    })
    const renewal: Request = { op: 'renew', key, id: held.id, ttlMs: held.ttlMs }
    const answered = await postRequests(url, [renewal], tokenOf('all'))
    expect(answered.value).toMatchObject({ statuses: [{ state: 'held' }] })
  })

  test('that may not read learns how the last lease ended, and not whose it was', async () => {
    const blind: TokenOptions = { name: 'blind', token: tokenOf('blind'), namespaces: ['billing'], rights: ['lock'] }
    const { url } = await start({ tokens: [...tokens, blind] })
    const place = 'billing/named:shift'
    const runner = { ...claimOf(place).runner, host: 'payroll-7', metadata: { command: 'pay everybody' } }
    const first = await postRequests(url, [claiming(claimOf(place, { runner }))], tokenOf('all'))
    const { fence } = (first.value as { readonly statuses: readonly [{ readonly fence: number }] }).statuses[0]
    await postRequests(url, [{ op: 'evict', key: place, fence, reason: 'test' }], tokenOf('all'))
    const taken = await postRequests(url, [claiming(claimOf(place))], tokenOf('blind'))
    expect(taken.value).toMatchObject({ statuses: [{ state: 'held', after: { how: 'evicted', fence } }] })
    expect(taken.text).not.toMatch(/payroll|everybody/)
  })

  test('for some keys of a namespace learns no names of others from claims that name what their owner holds', async () => {
    const nightly: TokenOptions = {
      name: 'nightly',
      token: tokenOf('nightly'),
      prefixes: ['billing/named:nightly/'],
      rights: ['lock', 'read'],
    }
    const { url } = await start({ tokens: [...tokens, nightly] })
    const place = 'billing/named:nightly/job'
    const holds = ['named:secret/plan', 'named:nightly/other', 'billing/named:nightly/forged']
    const runner = { ...claimOf(place).runner, holds }
    const [holder, waiter] = [claimOf(place, { runner }), claimOf(place, { runner })]
    const first = await postRequests(url, [holder, waiter].map(claiming), tokenOf('all'))
    const { fence } = (first.value as { readonly statuses: readonly { readonly fence: number }[] }).statuses[0] ?? {
      fence: 0,
    }
    const listed = await get(`${url}/v1/keys?prefix=billing/named:nightly/`, tokenOf('nightly'))
    expect(listed.value).toMatchObject({ keys: [{ claims: [{ runner: { holds: ['named:nightly/other'] } }, {}] }] })
    expect(listed.text).not.toContain('secret')
    expect((await get(`${url}/v1/keys?key=${place}`, tokenOf('worker'))).text).toContain('secret')

    // The next holder learns from whom it took over: by its stream, and whenever it asks.
    const mine = claimOf(place, { priority: 1 })
    const bearer = { authorization: `Bearer ${tokenOf('nightly')}`, ...session }
    const stream = await fetch(`${url}/v1/notifications`, { headers: bearer })
    await fetch(`${url}/v1/requests`, {
      method: 'POST',
      headers: { ...bearer, 'content-type': 'application/json' },
      body: JSON.stringify({ requests: [claiming(mine)] }),
    })
    await postRequests(url, [{ op: 'evict', key: place, fence, reason: 'test' }], tokenOf('all'))
    let events = ''
    for await (const piece of stream.body ?? []) {
      events += Buffer.from(piece).toString()
      if (events.includes('"held"')) break
    }
    const renewal = { op: 'renew', key: place, id: mine.id, ttlMs: mine.ttlMs } as const
    const asked = await postRequests(url, [renewal], tokenOf('nightly'))
    for (const told of [events, asked.text]) {
      expect(told).toContain('"evicted"')
      expect(told).toContain('named:nightly/other')
      expect(told).not.toContain('secret')
    }
  })

  test('may be kept as its SHA-256', async () => {
    const { url } = await start()
    const claim: Request = { op: 'claim', claim: claimOf(key) }
    expect(await postRequests(url, [claim], tokenOf('hashed'))).toMatchObject({ status: 200 })
  })

  test('is named in the metadata of the claims it made, whatever they say themselves', async () => {
    const driver = memory()
    const { url } = await start({ driver })
    const { runner } = claimOf(key)
    const claim = claimOf(key, { runner: { ...runner, metadata: { via: 'somebody else', more: 1 } } })
    await postRequests(url, [{ op: 'claim', claim }], tokenOf('worker'))
    const { keys } = await driver.list({ key })
    expect(keys[0]?.claims[0]?.runner.metadata).toEqual({ via: 'worker', more: 1 })
  })

  test('that is replaced is not known any more, and streams end', async () => {
    const server = await start()
    const stream = await fetch(`${server.url}/v1/notifications`, {
      headers: { authorization: `Bearer ${tokenOf('worker')}`, ...session },
    })
    server.replaceTokens([{ name: 'new', token: tokenOf('new'), namespaces: '*', rights: ['read'] }])
    await stream.text()
    expect(await get(`${server.url}/v1/store`, tokenOf('worker'))).toMatchObject({ status: 401 })
    expect(await get(`${server.url}/v1/store`, tokenOf('new'))).toMatchObject({ status: 200 })
  })

  test.each<[string, unknown, RegExp]>([
    ['is too short', [{ name: 'a', token: 'short', namespaces: '*', rights: ['lock'] }], /16 to 512/],
    ['has neither token nor hash', [{ name: 'a', namespaces: '*', rights: ['lock'] }], /either token or sha256/],
    ['has a hash that is none', [{ name: 'a', sha256: 'x', namespaces: '*', rights: ['lock'] }], /64 hex digits/],
    ['has no rights', [{ name: 'a', token: tokenOf('a'), namespaces: '*', rights: [] }], /needs rights/],
    ['has a right that is none', [{ name: 'a', token: tokenOf('a'), namespaces: '*', rights: ['x'] }], /needs rights/],
    ['has no namespaces', [{ name: 'a', token: tokenOf('a'), rights: ['lock'] }], /needs namespaces/],
    [
      'has a namespace that is none',
      [{ name: 'a', token: tokenOf('a'), namespaces: ['/'], rights: ['lock'] }],
      /not usable/,
    ],
    [
      'says something that means nothing',
      [{ name: 'a', token: tokenOf('a'), namespaces: '*', rights: ['lock'], x: 1 }],
      /"x"/,
    ],
    ['is there twice', [tokens[0], { ...tokens[0], name: 'b' }], /twice/],
    ['has the name of another', [tokens[0], { ...tokens[1], name: 'all' }], /Two tokens/],
    ['is not there at all', [], /empty/],
  ])('that %s is refused with a reason, and not quoted', async (_, given, reason) => {
    const starting = serve({ driver: memory(), port: 0, tokens: given as readonly TokenOptions[] })
    await expect(starting).rejects.toMatchObject({ code: 'INVALID', message: expect.stringMatching(reason) })
    await expect(starting).rejects.not.toMatchObject({ message: expect.stringMatching(/secret-of|short/) })
  })
})

describe('without tokens', () => {
  test('a server listens on this machine only', async () => {
    for (const host of ['0.0.0.0', '::', '192.168.1.1', 'example.com']) {
      const starting = serve({ driver: memory(), port: 0, host })
      await expect(starting).rejects.toMatchObject({
        code: 'INVALID',
        message: expect.stringMatching(/Give it tokens/),
      })
    }
  })

  test('an IPv6 address may be written as in a URL', async () => {
    const listens = async (host: string): Promise<unknown> => {
      const server = await serve({ driver: memory(), port: 0, host }).catch((error: unknown) => error)
      if (server instanceof Error) return (server.cause as NodeJS.ErrnoException | undefined)?.code ?? server.message
      const open = server as Awaited<ReturnType<typeof serve>>
      await open.close()
      return new URL(open.url).hostname
    }
    // Where a machine has no IPv6, both fail in the same way.
    expect(await listens('[::1]')).toBe(await listens('::1'))
  })

  test('a call under the name of another site is refused, as a page of that site may have made it', async () => {
    const { url } = await serve({ driver: memory(), port: 0 }).then((server) => {
      onTestFinished(() => server.close())
      return server
    })
    const { port } = new URL(url)
    expect(await statusFor(url, `evil.example:${port}`)).toBe(403)
    expect(await statusFor(url, 'localhost.evil.example')).toBe(403)
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`])
      expect(await statusFor(url, host)).toBe(200)
  })

  test('no page of another site may read an answer, or post without asking first', async () => {
    const server = await serve({ driver: memory(), port: 0 })
    onTestFinished(() => server.close())
    const answer = await get(`${server.url}/v1/store`, undefined, { origin: 'https://evil.example' })
    expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([])
    expect((await fetch(`${server.url}/v1/requests`, { method: 'OPTIONS' })).status).toBe(405)
    expect(await post(`${server.url}/v1/requests`, '{"requests":[]}', undefined, 'text/plain')).toMatchObject({
      status: 415,
    })
  })
})

describe('a client over HTTP', () => {
  test('is told what its token lacks, as UNAVAILABLE with reason auth', async () => {
    const { url } = await start()
    const { host } = new URL(url)
    const none = http({ url, token: 'wrong-0123456789abcdef' })
    await expect(none.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'auth' })
    await none.close()
    const locks = await createLocks({ driver: http(`http://${tokenOf('stranger')}@${host}`), namespace: 'billing' })
    onTestFinished(() => locks.close())
    await expect(locks.acquire('invoice', { wait: '5s' })).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      reason: 'auth',
      message: expect.stringMatching(/not for the namespace "billing"/),
    })
  })

  test('takes, verifies and hands back locks with the token in its URL', async () => {
    const { url } = await start()
    const { host } = new URL(url)
    const locks = await createLocks({ driver: http(`http://${tokenOf('worker')}@${host}`), namespace: 'billing' })
    onTestFinished(() => locks.close())
    const lease = await locks.acquire('invoice')
    expect(await locks.verify(lease.toJSON(), 'invoice')).toMatchObject({ fence: lease.fence })
    await lease.release()
    await expect(locks.verify(lease.toJSON(), 'invoice')).rejects.toMatchObject({ code: 'NOT_HELD' })
  })
})

/** The status for a call with this Host header, which fetch would not send. */
function statusFor(url: string, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${url}/v1/store`, { headers: { host }, agent: false }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode))
    })
    request.on('error', reject)
    request.end()
  })
}

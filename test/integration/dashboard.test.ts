import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { AuditEntry, ChangeDocument, OperatorsLockPage } from '../../src/dashboard/documents.ts'
import { EventStream } from '../../src/dashboard/page/event-stream.js'
import { http } from '../../src/drivers/http/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { createLocks } from '../../src/index.ts'
import { serve, type ServeOptions, type TokenOptions } from '../../src/server/index.ts'
import { dashboard } from '../../src/server/operators.ts'
import { fakeTime } from '../../src/testing/fake-time.ts'
import { get, post, postRequests, type Called } from '../support/called.ts'
import { claim, claimOf, release } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { tokenOf } from '../support/tokens.ts'

const tokens: readonly TokenOptions[] = [
  { name: 'all', token: tokenOf('all'), namespaces: '*', rights: ['lock', 'read', 'evict'] },
  { name: 'viewer', token: tokenOf('viewer'), namespaces: ['billing'], rights: ['read'] },
  { name: 'warden', token: tokenOf('warden'), namespaces: ['billing'], rights: ['read', 'evict'] },
  { name: 'worker', token: tokenOf('worker'), namespaces: '*', rights: ['lock'] },
  { name: 'stranger', token: tokenOf('stranger'), namespaces: ['other'], rights: ['lock', 'read', 'evict'] },
]

/** A server with the dashboard, in front of a store with an open lock in two namespaces, each waited for. */
async function start(options: Partial<ServeOptions> = {}) {
  const driver = memory()
  const server = await serve({ driver, port: 0, tokens, routes: dashboard(), ...options })
  onTestFinished(() => server.close())
  const claims = ['billing', 'other'].flatMap((namespace) => {
    const key = `${namespace}/named:invoice`
    return [claimOf(key), claimOf(key)]
  })
  for (const each of claims) await claim(driver, each)
  const fenceOf = async (key: string): Promise<number> => (await driver.list({ key })).keys[0]?.claims[0]?.fence ?? 0
  return { driver, url: server.url, claims, fenceOf }
}

const key = 'billing/named:invoice'
const evict = (url: string, eviction: unknown, token?: string): Promise<Called> =>
  post(`${url}/v1/evictions`, JSON.stringify(eviction), token)
const message = (text: RegExp) => ({ error: { message: expect.stringMatching(text) } })

const routes: readonly (readonly [name: string, call: (url: string, token?: string) => Promise<Called>])[] = [
  ['GET /v1/principal', (url, token) => get(`${url}/v1/principal`, token)],
  ['GET /v1/locks', (url, token) => get(`${url}/v1/locks`, token)],
  ['GET /v1/cycles', (url, token) => get(`${url}/v1/cycles`, token)],
  ['GET /v1/overview', (url, token) => get(`${url}/v1/overview`, token)],
  ['GET /v1/lock', (url, token) => get(`${url}/v1/lock?key=${key}`, token)],
  ['GET /v1/series', (url, token) => get(`${url}/v1/series`, token)],
  ['GET /v1/changes', (url, token) => get(`${url}/v1/changes`, token)],
  ['GET /v1/audit', (url, token) => get(`${url}/v1/audit`, token)],
  ['POST /v1/evictions', (url, token) => evict(url, { key, fence: 1, reason: 'test' }, token)],
]

describe('rights', () => {
  test.each(routes)('%s wants a token that is known', async (_, call) => {
    const { url } = await start()
    expect(await call(url)).toMatchObject({ status: 401 })
    expect(await call(url, 'wrong-0123456789abcdef')).toMatchObject({ status: 401 })
  })

  test.each(routes.slice(1))('%s says which right the token lacks', async (_, call) => {
    const { url } = await start()
    const answer = await call(url, tokenOf('worker'))
    expect(answer).toMatchObject({ status: 403, value: message(/lacks the right '(read|evict)'/) })
  })

  test('to look are none to evict', async () => {
    const { url, fenceOf } = await start()
    const fence = await fenceOf(key)
    const refused = await evict(url, { key, fence, reason: 'test' }, tokenOf('viewer'))
    expect(refused).toMatchObject({ status: 403, value: message(/lacks the right 'evict'/) })
    expect(await fenceOf(key)).toBe(fence)
  })

  test('are those of the namespaces of the token, and no others are shown', async () => {
    const { url, fenceOf } = await start()
    const fence = await fenceOf(key)
    const refused = await evict(url, { key, fence, reason: 'test' }, tokenOf('stranger'))
    expect(refused).toMatchObject({ status: 403, value: message(/not for the namespace "billing"/) })
    for (const path of ['locks', 'cycles', 'overview', 'series']) {
      const other = await get(`${url}/v1/${path}?namespace=billing`, tokenOf('stranger'))
      expect(other).toMatchObject({ status: 403, value: message(/not for the namespace "billing"/) })
      expect((await get(`${url}/v1/${path}`, tokenOf('stranger'))).text).not.toContain('billing')
      if (path === 'series') continue
      expect((await get(`${url}/v1/${path}`, tokenOf('all'))).text).toContain('billing')
    }
    expect(await get(`${url}/v1/lock?key=${key}`, tokenOf('stranger'))).toMatchObject({ status: 403 })
    await evict(url, { key, fence, reason: 'test' }, tokenOf('warden'))
    expect((await get(`${url}/v1/audit`, tokenOf('stranger'))).value).toEqual({ evictions: [] })
  })

  test('are told to whoever has them', async () => {
    const { url } = await start()
    expect((await get(`${url}/v1/principal`, tokenOf('warden'))).value).toEqual({
      name: 'warden',
      rights: ['evict', 'read'],
      store: 'memory',
      refreshMs: 5000,
    })
    expect((await get(`${url}/dashboard/access`)).value).toEqual({ wantsToken: true })
  })

  test('are everybody’s where there are no tokens', async () => {
    const server = await serve({ driver: memory(), port: 0, routes: dashboard() })
    onTestFinished(() => server.close())
    expect((await get(`${server.url}/dashboard/access`)).value).toEqual({ wantsToken: false })
    expect((await get(`${server.url}/v1/principal`)).value).toMatchObject({
      rights: ['admin', 'evict', 'lock', 'read'],
    })
  })
})

test('locks are listed page by page, and no answer has the id of a claim', async () => {
  const { url, claims, fenceOf } = await start()
  const first = await get(`${url}/v1/locks?limit=1`, tokenOf('all'))
  const { locks, next = '' } = first.value as OperatorsLockPage
  expect(locks.map((lock) => lock.key)).toEqual([key])
  const second = await get(`${url}/v1/locks?limit=1&after=${next}`, tokenOf('all'))
  expect(second.value).toMatchObject({ locks: [{ namespace: 'other', scope: 'invoice' }] })
  const cycles = await get(`${url}/v1/cycles`, tokenOf('all'))
  const evicted = await evict(url, { key, fence: await fenceOf(key), reason: 'test' }, tokenOf('all'))
  const audit = await get(`${url}/v1/audit`, tokenOf('all'))
  const overview = await get(`${url}/v1/overview`, tokenOf('all'))
  const lock = await get(`${url}/v1/lock?key=${key}`, tokenOf('all'))
  for (const { text, status } of [first, second, cycles, evicted, audit, overview, lock]) {
    expect(status).toBe(200)
    for (const { id } of claims) expect(text).not.toContain(id)
  }
})

test('a claim that would outlast every calendar is refused, and hides no other', async () => {
  const { url } = await start()
  const longest = claimOf('other/named:for-ever', { ttlMs: Number.MAX_SAFE_INTEGER })
  const answer = await postRequests(url, [{ op: 'claim', claim: longest }], tokenOf('worker'))
  expect(answer).toMatchObject({ status: 400, value: message(/ttlMs must be from 1 to 31536000000/) })
  expect(await get(`${url}/v1/locks`, tokenOf('viewer'))).toMatchObject({ status: 200, value: { locks: [{ key }] } })
})

describe('an eviction', () => {
  test('ends that holder only, lets the next one in, and is in the audit and the log', async () => {
    const logged: string[] = []
    const logger = { debug: () => {}, info: () => {}, warn: (text: string) => void logged.push(text) }
    const { url, driver, claims, fenceOf } = await start({ routes: dashboard({ logger }) })
    const fence = await fenceOf(key)
    const answer = await evict(url, { key, fence, reason: 'host is gone' }, tokenOf('warden'))
    expect(answer).toMatchObject({
      status: 200,
      value: { result: 'evicted', by: 'warden', key, fence, runner: { host: 'here' }, reason: 'host is gone' },
    })
    const [listed] = (await driver.list({ key })).keys
    expect(listed?.claims.map(({ id, state }) => [id, state])).toEqual([[claims[1]?.id, 'held']])
    const again = await evict(url, { key, fence, reason: 'again' }, tokenOf('warden'))
    expect(again).toMatchObject({ status: 200, value: { result: 'not-held' } })
    const { evictions } = (await get(`${url}/v1/audit`, tokenOf('viewer'))).value as { evictions: AuditEntry[] }
    expect(evictions.map(({ result, reason }) => [result, reason])).toEqual([
      ['not-held', 'again'],
      ['evicted', 'host is gone'],
    ])
    expect(logged).toEqual([
      `warden evicts fence ${fence} of "${key}" (evicted): host is gone`,
      `warden evicts fence ${fence} of "${key}" (not-held): again`,
    ])
  })

  test('does not say who the holder was to a token that may not read', async () => {
    const blind: TokenOptions = { name: 'blind', token: tokenOf('blind'), namespaces: ['billing'], rights: ['evict'] }
    const { url, fenceOf } = await start({ tokens: [...tokens, blind] })
    const { value } = await evict(url, { key, fence: await fenceOf(key), reason: 'stuck' }, tokenOf('blind'))
    expect(value).toMatchObject({ result: 'evicted', by: 'blind' })
    expect(value).not.toHaveProperty('runner')
    const { evictions } = (await get(`${url}/v1/audit`, tokenOf('viewer'))).value as { evictions: AuditEntry[] }
    expect(evictions).toMatchObject([{ by: 'blind', runner: { host: 'here' } }])
  })

  test('that a client asks for, as leasehold evict does, is in the audit too', async () => {
    const { url, fenceOf } = await start()
    const fence = await fenceOf(key)
    await using locks = await createLocks({
      driver: http({ url, token: tokenOf('warden') }),
      namespace: 'billing',
      allowForce: true,
    })
    expect(await locks.evict('invoice', { fence, reason: 'by hand' })).toBe(1)
    const { evictions } = (await get(`${url}/v1/audit`, tokenOf('all'))).value as { evictions: AuditEntry[] }
    expect(evictions).toMatchObject([{ by: 'warden', key, fence, reason: 'by hand', result: 'evicted' }])
  })

  test('that makes no sense is refused', async () => {
    const { url } = await start()
    for (const body of [{}, [], 7, { key, fence: '1', reason: 'x' }, { key, fence: 1 }]) {
      expect(await evict(url, body, tokenOf('all'))).toMatchObject({ status: 400 })
    }
    const form = await post(`${url}/v1/evictions`, 'key=a', tokenOf('all'), 'text/plain')
    expect(form.status).toBe(415)
  })
})

describe('changes', () => {
  /** The changes that a token hears of, as they come. */
  async function watch(url: string, token: string): Promise<{ changes: ChangeDocument[]; isReady(): boolean }> {
    const stop = new AbortController()
    onTestFinished(() => stop.abort())
    const headers = { authorization: `Bearer ${token}` }
    const answer = await fetch(`${url}/v1/changes`, { headers, signal: stop.signal })
    const changes: ChangeDocument[] = []
    let ready = false
    const read = async (): Promise<void> => {
      const stream = new EventStream()
      for await (const piece of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        for (const { event, data } of stream.push(piece)) {
          if (event === 'change') changes.push(data as ChangeDocument)
          if (event === 'totals') ready = true
        }
      }
    }
    read().catch(() => {})
    return { changes, isReady: () => ready }
  }

  test('reach those who may see them, and nobody else', async () => {
    const { url, driver, claims } = await start()
    const viewer = await watch(url, tokenOf('viewer'))
    const stranger = await watch(url, tokenOf('stranger'))
    await eventually(() => viewer.isReady() && stranger.isReady(), 'the first look')
    for (const held of claims.slice(0, 1)) await release(driver, held)
    await claim(driver, claimOf('other/named:new'))
    await eventually(() => viewer.changes.length >= 2 && stranger.changes.length > 0, 'changes')
    expect(viewer.changes.map(({ kind, scope, namespace }) => [kind, scope, namespace])).toEqual([
      ['released', 'invoice', 'billing'],
      ['granted', 'invoice', 'billing'],
    ])
    expect(stranger.changes.map(({ kind, scope }) => [kind, scope])).toEqual([['granted', 'new']])
  })

  test('tell an eviction from a release', async () => {
    const { url, fenceOf } = await start()
    const viewer = await watch(url, tokenOf('viewer'))
    await eventually(() => viewer.isReady(), 'the first look')
    await evict(url, { key, fence: await fenceOf(key), reason: 'stuck' }, tokenOf('warden'))
    await eventually(() => viewer.changes.length > 0, 'the change')
    expect(viewer.changes[0]).toMatchObject({ kind: 'lost', detail: 'evicted by warden: stuck' })
  })

  test('are looked for while somebody is connected, and no longer', async () => {
    const time = fakeTime()
    const { url } = await start({ routes: dashboard({ environment: time.environment, history: false }) })
    const stop = new AbortController()
    const headers = { authorization: `Bearer ${tokenOf('viewer')}` }
    await fetch(`${url}/v1/changes`, { headers, signal: stop.signal })
    await eventually(() => time.timers === 1, 'the timer of a look')
    stop.abort()
    await eventually(() => time.timers === 0, 'the end of it')
  })
})

describe('the page', () => {
  test('is open to anybody, holds no data, and allows nothing but its own files', async () => {
    const { url } = await start()
    const page = await get(url)
    expect(page.status).toBe(200)
    expect(page.text).not.toContain('invoice')
    const files = [...page.text.matchAll(/(?:src|href)="(dashboard\/[^"]+)"/g)].map(([, file]) => `${url}/${file}`)
    expect(files.length).toBeGreaterThan(2)
    for (const answer of [page, ...(await Promise.all(files.map((file) => get(file))))]) {
      expect(answer.status).toBe(200)
      const policy = answer.headers.get('content-security-policy') ?? ''
      for (const rule of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"]) {
        expect(policy).toContain(rule)
      }
      expect(policy).not.toContain('unsafe')
      expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
      expect(answer.headers.get('referrer-policy')).toBe('no-referrer')
      expect(answer.headers.get('access-control-allow-origin')).toBeNull()
    }
  })
})

test('the answers are as the OpenAPI document says', async () => {
  const { url, fenceOf } = await start()
  type Operation = { responses: Record<string, { content: Record<string, { schema: object }> }> }
  const document = (await get(`${url}/openapi.json`)).value as { paths: Record<string, Record<string, Operation>> }
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true })
  addFormats.default(ajv)
  const complaint = (path: string, method: string, value: unknown): string => {
    const schema = document.paths[path]?.[method]?.responses['200']?.content['application/json']?.schema
    const validate = ajv.compile(schema ?? false)
    return validate(value) ? '' : ajv.errorsText(validate.errors)
  }
  for (const path of ['principal', 'locks', 'overview', 'series', 'cycles'].map((name) => `/v1/${name}`)) {
    expect(complaint(path, 'get', (await get(`${url}${path}`, tokenOf('all'))).value)).toBe('')
  }
  expect(complaint('/v1/lock', 'get', (await get(`${url}/v1/lock?key=${key}`, tokenOf('all'))).value)).toBe('')
  expect(complaint('/dashboard/access', 'get', (await get(`${url}/dashboard/access`)).value)).toBe('')
  const eviction = await evict(url, { key, fence: await fenceOf(key), reason: 'test' }, tokenOf('all'))
  expect(complaint('/v1/evictions', 'post', eviction.value)).toBe('')
  expect(complaint('/v1/audit', 'get', (await get(`${url}/v1/audit`, tokenOf('all'))).value)).toBe('')
  // The files of the page are for browsers.
  expect(Object.keys(document.paths).filter((path) => path === '/' || path.endsWith('.js'))).toEqual([])
})

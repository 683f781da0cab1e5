/** A store that works off one request after the other: what one tenant sends delays another's call by a bounded amount. */
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Request } from '../../src/core/contract/driver.ts'
import { keyOf } from '../../src/core/contract/requests.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { dashboard } from '../../src/server/operators.ts'
import { storeWorkMax } from '../../src/server/store/store-turns.ts'
import { get, post, postRequests } from '../support/called.ts'
import { claimOf, claiming } from '../support/claims.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

const tokens = ['hostile', 'victim'].map((name) => {
  return { name, token: tokenOf(name), namespaces: [name], rights: ['lock', 'read'] as const }
})

/** A store with one queue for all: a request takes its time, and then comes the next. */
class SlowStore {
  readonly driver = memory()
  /** What was in its queue when a request or a page of each namespace came, with what came together with it. */
  readonly ahead = new Map<string, number[]>()
  /** The most pages that were asked for at once. */
  mostPages = 0
  #pages = 0
  #queued = 0
  #last: Promise<unknown> = Promise.resolve()

  constructor() {
    const { driver } = this
    const send = driver.send.bind(driver)
    const list = driver.list.bind(driver)
    driver.send = (requests) => this.#queue(requests.map(keyOf), () => send(requests))
    driver.list = (query) => {
      this.#pages += 1
      this.mostPages = Math.max(this.mostPages, this.#pages)
      const listed = this.#queue([query.prefix ?? query.key ?? ''], () => list(query))
      return listed.finally(() => void (this.#pages -= 1))
    }
  }

  get queued(): number {
    return this.#queued
  }

  #queue<Result>(keys: readonly string[], result: () => Promise<Result>): Promise<Result> {
    this.#queued += keys.length
    for (const namespace of new Set(keys.map((key) => key.split('/', 1)[0] ?? ''))) {
      this.ahead.set(namespace, [...(this.ahead.get(namespace) ?? []), this.#queued - 1])
    }
    const done = this.#last.then(async () => {
      await pause(keys.length / 5)
      this.#queued -= keys.length
      return result()
    })
    this.#last = done.catch(() => {})
    return done
  }
}

/** Calls with a thousand claims each, no two of one key. */
const flooding = (url: string, calls: number): Promise<{ readonly status: number }>[] =>
  Array.from({ length: calls }, (_, call) => {
    const claims = Array.from({ length: 1000 }, (_each, index) => claiming(claimOf(`hostile/named:${call}-${index}`)))
    return postRequests(url, claims, tokenOf('hostile'))
  })
const claim = claimOf('victim/named:a')

test('behind a slow store, the claims of another tenant are in the way of a call up to a bound, however many it has sent', async () => {
  const store = new SlowStore()
  const { url } = await startServer({ tokens, driver: store.driver })
  const flood = flooding(url, 5)
  await expect.poll(() => store.queued).toBeGreaterThan(0)
  // All of the flood has arrived by the second of them.
  for (let calls = 0; calls < 2; calls += 1) {
    expect(await postRequests(url, [claiming(claim)], tokenOf('victim'))).toMatchObject({ status: 200 })
  }
  expect(Math.max(...(store.ahead.get('victim') ?? []))).toBeLessThanOrEqual(storeWorkMax.claims)
  expect((await Promise.all(flood)).map(({ status }) => status)).toEqual(flood.map(() => 200))
}, 60_000)

test('behind a slow store, renewals of a token do not wait for all of its own claims', async () => {
  const store = new SlowStore()
  const { url } = await startServer({ tokens, driver: store.driver })
  const own = claimOf('hostile/named:own')
  await postRequests(url, [claiming(own)], tokenOf('hostile'))
  const flood = Promise.all(flooding(url, 5)).then(() => 'flood')
  await expect.poll(() => store.queued).toBeGreaterThan(10)
  const renewal: Request = { op: 'renew', key: own.key, id: own.id, ttlMs: own.ttlMs }
  const renewed = postRequests(url, [renewal], tokenOf('hostile')).then(({ status }) => status)
  expect(await Promise.race([renewed, flood])).toBe(200)
  await flood
}, 60_000)

test.each([
  '/v1/keys?prefix=hostile/',
  '/v1/locks?namespace=hostile',
  '/v1/cycles?namespace=hostile',
  '/v1/lock?key=hostile/named:a',
  '/v1/locks/hostile/a',
])(
  'behind a slow store, a few listings of another tenant are in the way of a call: %s',
  async (path) => {
    const store = new SlowStore()
    const { url } = await startServer({ tokens, driver: store.driver, routes: dashboard({ history: false }) })
    const flood = Array.from({ length: 100 }, () => get(`${url}${path}`, tokenOf('hostile')))
    await expect.poll(() => store.queued).toBeGreaterThan(0)
    await postRequests(url, [claiming(claim)], tokenOf('victim'))
    expect((await Promise.all(flood)).map(({ status }) => status)).toEqual(flood.map(() => 200))
    expect(Math.max(...(store.ahead.get('hostile') ?? []))).toBeLessThanOrEqual(storeWorkMax.pages)
  },
  60_000,
)

test('behind a slow store, a few holders that another tenant looks for to evict them are in the way of a call', async () => {
  const store = new SlowStore()
  const evictor = { name: 'evictor', token: tokenOf('evictor'), namespaces: ['hostile'], rights: ['evict'] as const }
  const { url } = await startServer({
    tokens: [...tokens, evictor],
    driver: store.driver,
    routes: dashboard({ history: false }),
  })
  const eviction = JSON.stringify({ key: 'hostile/named:a', fence: 1, reason: 'a test' })
  const flood = Array.from({ length: 100 }, () => post(`${url}/v1/evictions`, eviction, tokenOf('evictor')))
  await expect.poll(() => store.queued).toBeGreaterThan(0)
  await postRequests(url, [claiming(claim)], tokenOf('victim'))
  expect((await Promise.all(flood)).map(({ status }) => status)).toEqual(flood.map(() => 200))
  expect(store.mostPages).toBeLessThanOrEqual(storeWorkMax.pages)
}, 60_000)

test('calls that wait for their turn at the store are not carried out once their callers have gone', async () => {
  const warnings: string[] = []
  const logger = { debug: () => {}, info: () => {}, warn: (message: string) => void warnings.push(message) }
  const store = new SlowStore()
  const { url } = await startServer({ tokens, driver: store.driver, logger })
  const flood = flooding(url, 3)
  await expect.poll(() => store.queued).toBeGreaterThan(0)
  const gone = new AbortController()
  const body = JSON.stringify({ requests: [claiming(claimOf('hostile/named:late'))] })
  const headers = { authorization: `Bearer ${tokenOf('hostile')}`, 'content-type': 'application/json' }
  const late = fetch(`${url}/v1/requests`, { method: 'POST', body, headers, signal: gone.signal })
  late.catch(() => {})
  await pause(50)
  gone.abort()
  await Promise.all(flood)
  const { keys } = await store.driver.list({ key: 'hostile/named:late' })
  expect(keys).toEqual([])
  expect(warnings).toEqual([])
}, 60_000)

import { connect as connectSocket } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Request } from '../../src/core/contract/driver.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { TrustedProxies } from '../../src/server/http/caller-address.ts'
import type { ServeOptions, TokenOptions } from '../../src/server/index.ts'
import { get, postRequests } from '../support/called.ts'
import { claimOf } from '../support/claims.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

const tokens: readonly TokenOptions[] = [
  { name: 'one', token: tokenOf('one'), namespaces: ['billing'], rights: ['lock', 'read'] },
  { name: 'two', token: tokenOf('two'), namespaces: ['billing'], rights: ['lock', 'read'] },
  {
    name: 'fast',
    token: tokenOf('fast'),
    namespaces: '*',
    rights: ['admin'],
    rate: { perSecond: 1000, burst: 1000 },
  },
]

/** A server whose clock stands still until it is moved. */
async function start(rateLimits: ServeOptions['rateLimits'], more: Partial<ServeOptions> = {}) {
  let now = 0
  const environment = { ...systemEnvironment(), now: () => now }
  const { url } = await startServer({ tokens, rateLimits, environment, ...more })
  return { url, advance: (ms: number): void => void (now += ms) }
}

describe('a token that sends more than it may', () => {
  test('is answered 429 with Retry-After, and is let in again after that long; others are not held up', async () => {
    const { url, advance } = await start({ perToken: { perSecond: 0.5, burst: 3 } })
    const status = async (name: string) => (await get(`${url}/v1/store`, tokenOf(name))).status
    for (let calls = 0; calls < 3; calls += 1) expect(await status('one')).toBe(200)
    const refused = await get(`${url}/v1/store`, tokenOf('one'))
    expect(refused).toMatchObject({
      status: 429,
      value: { error: { code: 'UNAVAILABLE', reason: 'busy', retryAfterMs: 2000 } },
    })
    expect(refused.headers.get('retry-after')).toBe('2')
    expect(await status('two')).toBe(200)
    advance(1999)
    expect(await status('one')).toBe(429)
    advance(1)
    expect(await status('one')).toBe(200)
    expect(await status('one')).toBe(429)
  })

  test('pays for every request of a call, afterwards if it must', async () => {
    const { url, advance } = await start({ perToken: { perSecond: 10, burst: 10 } })
    const batch = Array.from({ length: 30 }, (_, index): Request => {
      return { op: 'claim', claim: claimOf(`billing/named:${index}`) }
    })
    expect(await postRequests(url, batch, tokenOf('one'))).toMatchObject({ status: 200 })
    expect(await get(`${url}/v1/store`, tokenOf('one'))).toMatchObject({
      status: 429,
      value: { error: { retryAfterMs: 2100 } },
    })
    advance(2100)
    expect(await get(`${url}/v1/store`, tokenOf('one'))).toMatchObject({ status: 200 })
  })

  test('pays for a body while it arrives, whether it ends or not', async () => {
    const { url } = await start({ perToken: { perSecond: 1, burst: 10 } })
    const socket = connectSocket(Number(new URL(url).port), '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    socket.write(
      `POST /v1/requests HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${tokenOf('one')}\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n${' '.repeat(200_000)}`,
    )
    const statusOf = async (name: string) => (await get(`${url}/v1/store`, tokenOf(name))).status
    await expect.poll(() => statusOf('one')).toBe(429)
    // Of ten calls and the polls before, none would have been too many: the body has.
    const refused = await get(`${url}/v1/store`, tokenOf('one'))
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(10)
    expect(await statusOf('two')).toBe(200)
  })

  test('may have a rate of its own', async () => {
    const { url } = await start({ perToken: { perSecond: 1, burst: 1 } })
    for (let calls = 0; calls < 5; calls += 1)
      expect(await get(`${url}/v1/store`, tokenOf('fast'))).toMatchObject({ status: 200 })
  })

  test('is counted in the metrics, by name for administrators alone', async () => {
    const { url } = await start({ perToken: { perSecond: 1, burst: 2 } })
    for (let calls = 0; calls < 4; calls += 1) await get(`${url}/v1/store`, tokenOf('one'))
    const total = 'leasehold_server_rate_limited_calls_total{by="token"} 2'
    const named = 'leasehold_server_token_rate_limited_calls_total{token="one"} 2'
    const all = await get(`${url}/metrics`, tokenOf('fast'))
    expect(all.text).toContain(total)
    expect(all.text).toContain(named)
    expect(all.text).toContain('leasehold_server_refused_calls_total{why="rate"} 2')
    const some = await get(`${url}/metrics`, tokenOf('two'))
    expect(some.text).toContain(total)
    expect(some.text).not.toContain('token="one"')
  })
})

describe('an address that calls more often than it may', () => {
  test('is answered 429 before any token is looked at; probes are answered all the same', async () => {
    const { url, advance } = await start({ perAddress: { perSecond: 1, burst: 2 } })
    expect(await get(`${url}/v1/store`)).toMatchObject({ status: 401 })
    expect(await get(`${url}/nowhere`)).toMatchObject({ status: 404 })
    expect(await get(`${url}/v1/store`, tokenOf('one'))).toMatchObject({ status: 429 })
    expect(await get(`${url}/nowhere`)).toMatchObject({ status: 429 })
    expect(await get(`${url}/healthz`)).toMatchObject({ status: 200 })
    const { text } = await get(`${url}/metrics`, tokenOf('one'))
    expect(text).toContain('leasehold_server_rate_limited_calls_total{by="address"} 2')
    advance(1000)
    expect(await get(`${url}/v1/store`, tokenOf('one'))).toMatchObject({ status: 200 })
  })

  test.each([
    ['a header Expect that is not understood', 417, 'GET /v1/store HTTP/1.1\r\nhost: x\r\nexpect: more\r\n\r\n'],
    ['a URL that is too long', 414, `GET /${'a'.repeat(9000)} HTTP/1.1\r\nhost: x\r\n\r\n`],
    [
      'a preflight request',
      204,
      'OPTIONS /v1/store HTTP/1.1\r\nhost: x\r\norigin: https://app.example\r\naccess-control-request-method: PUT\r\n\r\n',
    ],
  ])('is counted for %s too, which is answered and its connection closed', async (_, status, call) => {
    const corsOrigins = ['https://app.example']
    const { url } = await start({ perAddress: { perSecond: 1, burst: 2 } }, { corsOrigins })
    const statuses: number[] = []
    for (let calls = 0; calls < 3; calls += 1) {
      const socket = connectSocket(Number(new URL(url).port), '127.0.0.1')
      const answer = textOf(socket)
      socket.write(call)
      statuses.push(Number((await answer).split(' ')[1]))
    }
    expect(statuses).toEqual([status, status, 429])
  })

  test('is the one that a trusted proxy names, and nobody else’s word counts', async () => {
    const limits = { perAddress: { perSecond: 1, burst: 1 } }
    const from = (address: string) => ({ 'x-forwarded-for': address })
    const trusting = await start(limits, { trustedProxies: ['127.0.0.1'] })
    const status = async (url: string, address: string) =>
      (await get(`${url}/v1/store`, tokenOf('one'), from(address))).status
    expect(await status(trusting.url, '10.0.0.1')).toBe(200)
    expect(await status(trusting.url, '10.0.0.2')).toBe(200)
    expect(await status(trusting.url, '10.0.0.9, 10.0.0.1')).toBe(429)
    const strict = await start(limits)
    expect(await status(strict.url, '10.0.0.1')).toBe(200)
    expect(await status(strict.url, '10.0.0.2')).toBe(429)
  })

  test('has 64 bits of IPv6 for one', async () => {
    const { url } = await start({ perAddress: { perSecond: 1, burst: 1 } }, { trustedProxies: ['127.0.0.1'] })
    const status = async (address: string) =>
      (await get(`${url}/v1/store`, tokenOf('one'), { 'x-forwarded-for': address })).status
    expect(await status('2001:db8:0:1::5')).toBe(200)
    expect(await status('2001:db8::1:0:0:0:6')).toBe(429)
    expect(await status('2001:db8:0:2::5')).toBe(200)
  })
})

test.each<[string, string | undefined, string]>([
  ['10.0.0.5', undefined, '10.0.0.5'],
  ['::ffff:10.0.0.5', '1.1.1.1', '1.1.1.1'],
  ['10.0.0.5', '6.6.6.6, 1.1.1.1, 10.0.0.7', '1.1.1.1'],
  ['10.0.0.5', 'nonsense', '10.0.0.5'],
  ['10.0.0.5', '1.1.1.1, nonsense, 10.0.0.7', '10.0.0.7'],
  ['11.0.0.5', '1.1.1.1', '11.0.0.5'],
  ['10.0.0.5', '10.0.0.6, 10.0.0.7', '10.0.0.6'],
])('a call from %s with X-Forwarded-For %s comes from %s', (remoteAddress, forwarded, address) => {
  const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
  const request = { socket: { remoteAddress }, headers } as unknown as Parameters<TrustedProxies['addressOf']>[0]
  expect(new TrustedProxies(['10.0.0.0/8']).addressOf(request)).toBe(address)
})

test.each(['nonsense', '10.0.0.0/33', '10.0.0.0/x', 'proxy.example'])('%s is no trusted proxy', async (proxy) => {
  await expect(startServer({ trustedProxies: [proxy] })).rejects.toMatchObject({ code: 'INVALID' })
})

test.each([
  { perToken: { perSecond: 0 } },
  { perAddress: { perSecond: 1, burst: 0 } },
  { perToken: 5 },
  { perUser: {} },
])('the rate limits %j are refused', async (rateLimits) => {
  const starting = startServer({ rateLimits: rateLimits as ServeOptions['rateLimits'] })
  await expect(starting).rejects.toMatchObject({ code: 'INVALID' })
})

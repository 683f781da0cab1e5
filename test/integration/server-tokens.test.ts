import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Request } from '../../src/core/contract/driver.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { events, type EventFeed } from '../../src/server/contract/call.ts'
import type { TokenOptions } from '../../src/server/index.ts'
import { get, postRequests } from '../support/called.ts'
import { claimOf } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

const key = 'billing/named:invoice'
const claiming = (of = key): Request => ({ op: 'claim', claim: claimOf(of) })
const session = { 'leasehold-session': 'a'.repeat(22) }
const billing: TokenOptions = { name: 'ci', token: tokenOf('ci'), namespaces: ['billing'], rights: ['lock', 'read'] }

/** The call that asks is one of them. */
async function callsUnderWay(url: string): Promise<number> {
  const { text } = await get(`${url}/metrics`, tokenOf('other'))
  return Number(/calls_under_way (\d+)/.exec(text)?.[1])
}

/** A wall clock that a test sets, over real timers. */
function settableWall() {
  const environment = systemEnvironment()
  let aheadMs = 0
  return {
    environment: { ...environment, wall: () => environment.wall() + aheadMs },
    advance: (ms: number): void => void (aheadMs += ms),
  }
}

describe('a token with an expiry', () => {
  const tokens: readonly TokenOptions[] = [{ ...billing, expires: new Date(Date.now() + 3_600_000).toISOString() }]

  test('is taken until then, and refused by name afterwards', async () => {
    const { environment, advance } = settableWall()
    const { url } = await startServer({ tokens, environment })
    expect(await get(`${url}/v1/store`, tokenOf('ci'))).toMatchObject({ status: 200 })
    advance(3_600_000)
    expect(await get(`${url}/v1/store`, tokenOf('ci'))).toMatchObject({
      status: 401,
      value: { error: { reason: 'auth', message: 'The token "ci" has expired.' } },
    })
  })

  test('loses its streams at that moment', async () => {
    const soon = [{ ...billing, expires: new Date(Date.now() + 1500).toISOString() }]
    const { url } = await startServer({ tokens: soon })
    const headers = { authorization: `Bearer ${tokenOf('ci')}`, ...session }
    const stream = await fetch(`${url}/v1/notifications`, { headers })
    expect(stream.status).toBe(200)
    // Ends by itself: the server says no more.
    await stream.text()
    expect(await get(`${url}/v1/store`, tokenOf('ci'))).toMatchObject({ status: 401 })
  })

  test.each(['tomorrow', '2027-01-31', '2027-01-31T00:00:00', '2027-13-01T00:00:00Z', 1])(
    'that is %j is refused with advice',
    async (expires) => {
      const starting = startServer({ tokens: [{ ...billing, expires } as TokenOptions] })
      await expect(starting).rejects.toMatchObject({ code: 'INVALID', message: expect.stringContaining('with a zone') })
    },
  )
})

test('a token with several secrets is the same token with each of them, each until its own end', async () => {
  const { environment, advance } = settableWall()
  const old = { token: tokenOf('old'), expires: new Date(Date.now() + 60_000).toISOString() }
  const tokens = [{ ...billing, secrets: [old, { token: tokenOf('next') }] }]
  const { url } = await startServer({ tokens, environment })
  const own = claimOf(key)
  await postRequests(url, [{ op: 'claim', claim: own }], tokenOf('old'))
  const renewal: Request = { op: 'renew', key, id: own.id, ttlMs: 60_000 }
  const renewed = await postRequests(url, [renewal], tokenOf('next'))
  expect(renewed.value).toMatchObject({ statuses: [{ state: 'held' }] })
  advance(60_000)
  expect(await postRequests(url, [renewal], tokenOf('old'))).toMatchObject({ status: 401 })
  expect(await postRequests(url, [renewal], tokenOf('next'))).toMatchObject({ status: 200 })
  expect(await postRequests(url, [renewal], tokenOf('ci'))).toMatchObject({ status: 200 })
})

describe('rights by key prefix', () => {
  const nightly = 'builds/named:nightly/'
  const tokens: readonly TokenOptions[] = [
    {
      name: 'night',
      token: tokenOf('night'),
      prefixes: [nightly],
      rights: ['lock', 'read'],
      grants: [{ namespaces: ['logs'], rights: ['read'] }],
    },
    {
      name: 'warden',
      token: tokenOf('warden'),
      namespaces: ['builds'],
      rights: ['lock'],
      grants: [{ prefixes: [nightly], rights: ['evict'] }],
    },
  ]

  test('are for keys that begin so, and for no others of the namespace', async () => {
    const { url } = await startServer({ tokens })
    const inside = await postRequests(url, [claiming(`${nightly}a`)], tokenOf('night'))
    expect(inside.value).toMatchObject({ statuses: [{ state: 'held' }] })
    for (const other of ['builds/named:nightly', 'builds/named:other', 'logs/named:x']) {
      const outside = await postRequests(url, [claiming(other)], tokenOf('night'))
      expect(outside).toMatchObject({ status: 403, value: { error: { message: expect.stringMatching(/lacks/) } } })
    }
  })

  test('let list what is inside, and nothing around it', async () => {
    const { url } = await startServer({ tokens })
    await postRequests(url, [claiming(`${nightly}a`), claiming('builds/named:other')], tokenOf('warden'))
    const listed = await get(`${url}/v1/keys?prefix=${nightly}`, tokenOf('night'))
    expect(listed.value).toMatchObject({ keys: [{ key: `${nightly}a` }] })
    expect(await get(`${url}/v1/keys?prefix=logs/`, tokenOf('night'))).toMatchObject({ status: 200 })
    for (const query of ['prefix=builds/', 'key=builds/named:other', 'prefix=builds/named:night', '']) {
      expect(await get(`${url}/v1/keys?${query}`, tokenOf('night'))).toMatchObject({ status: 403 })
    }
  })

  test('differ by right: a token may evict in one part of what it may lock', async () => {
    const { url } = await startServer({ tokens })
    const forcing = (of: string): Request => ({ op: 'claim', claim: claimOf(of, { evict: 'all' }) })
    const allowed = await postRequests(url, [forcing(`${nightly}a`)], tokenOf('warden'))
    expect(allowed.value).toMatchObject({ statuses: [{ state: 'held' }] })
    expect(await postRequests(url, [forcing('builds/named:other')], tokenOf('warden'))).toMatchObject({
      status: 403,
      value: { error: { message: `The token "warden" lacks the right 'evict' for "builds/named:other".` } },
    })
  })
})

test('an administrator may do what every other right allows', async () => {
  const tokens: readonly TokenOptions[] = [
    { name: 'root', token: tokenOf('root'), namespaces: ['billing'], rights: ['admin'] },
  ]
  const { url } = await startServer({ tokens })
  const { value } = await postRequests(url, [claiming()], tokenOf('root'))
  const [{ fence }] = (value as { statuses: [{ fence: number }] }).statuses
  expect(await get(`${url}/v1/keys?prefix=billing/`, tokenOf('root'))).toMatchObject({ status: 200 })
  const evicted = await postRequests(url, [{ op: 'evict', key, fence, reason: 'a test' }], tokenOf('root'))
  expect(evicted.value).toMatchObject({ statuses: [{ state: 'absent', reason: 'evicted' }] })
  expect(await postRequests(url, [claiming('other/named:x')], tokenOf('root'))).toMatchObject({ status: 403 })
})

describe('a token that is revoked', () => {
  test('has nothing carried out whose body was on its way', async () => {
    const driver = memory()
    const server = await startServer({ tokens: [billing, other], driver })
    const claim = claimOf('billing/named:late', { wait: false })
    const body = JSON.stringify({ requests: [{ op: 'claim', claim }] })
    const call = request(`${server.url}/v1/requests`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${tokenOf('ci')}`,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
      },
    })
    const answered = once(call, 'response') as Promise<[IncomingMessage]>
    call.write(body.slice(0, 10))
    await eventually(async () => (await callsUnderWay(server.url)) === 2, 'the call')
    server.replaceTokens([other])
    call.end(body.slice(10))
    const [answer] = await answered
    expect(answer.statusCode).toBe(401)
    expect((await driver.list({ key: claim.key })).keys).toEqual([])
  })

  test('has nothing carried out that waits for the clock', async () => {
    const driver = memory()
    const server = await startServer({ tokens: [billing, other], driver })
    const claim = claimOf('billing/named:lifted', { wait: false, ttlMs: 60_000 })
    await postRequests(server.url, [{ op: 'claim', claim }], tokenOf('ci'))
    const fenceFloor = (Date.now() + 1500) * 1000
    const renewal: Request = { op: 'renew', key: claim.key, id: claim.id, ttlMs: 60_000, fenceFloor }
    const lifting = postRequests(server.url, [renewal], tokenOf('ci'))
    await eventually(async () => (await callsUnderWay(server.url)) === 2, 'the call')
    server.replaceTokens([other])
    expect(await lifting).toMatchObject({ status: 401 })
    const { keys } = await driver.list({ key: claim.key })
    expect(keys[0]?.claims[0]?.fence).toBeLessThan(fenceFloor)
  })

  const other: TokenOptions = {
    name: 'other',
    token: tokenOf('other'),
    namespaces: ['billing'],
    rights: ['lock', 'read'],
  }

  test('renews no more, and what it held is free when its ttl is over', async () => {
    const server = await startServer({ tokens: [billing, other] })
    const own = claimOf(key, { ttlMs: 1500 })
    await postRequests(server.url, [{ op: 'claim', claim: own }], tokenOf('ci'))
    server.replaceTokens([other])
    const renewal: Request = { op: 'renew', key, id: own.id, ttlMs: 60_000 }
    expect(await postRequests(server.url, [renewal], tokenOf('ci'))).toMatchObject({ status: 401 })
    const next = claimOf(key)
    const queued = await postRequests(server.url, [{ op: 'claim', claim: next }], tokenOf('other'))
    expect(queued.value).toMatchObject({ statuses: [{ state: 'waiting' }] })
    const poll: Request = { op: 'renew', key, id: next.id, ttlMs: 60_000 }
    await expect
      .poll(async () => (await postRequests(server.url, [poll], tokenOf('other'))).value, { timeout: 10_000 })
      .toMatchObject({ statuses: [{ state: 'held' }] })
  })

  test('loses its streams at once, and so does one whose rights changed; those of others go on', async () => {
    const server = await startServer({ tokens: [billing, other, { ...other, name: 'third', token: tokenOf('third') }] })
    const streamOf = (name: string) =>
      fetch(`${server.url}/v1/notifications`, { headers: { authorization: `Bearer ${tokenOf(name)}`, ...session } })
    const [revoked, kept, changed] = await Promise.all([streamOf('ci'), streamOf('other'), streamOf('third')])
    let isKeptOpen = true
    const reading = kept.text().finally(() => (isKeptOpen = false))
    server.replaceTokens([other, { ...other, name: 'third', token: tokenOf('third'), rights: ['lock'] }])
    await Promise.all([revoked.text(), changed.text()])
    expect(isKeptOpen).toBe(true)
    await server.close()
    await reading
  })

  test('or whose stream another takes the place of, is cut off where it does not read what is left, and counts no more', async () => {
    const sends: ((event: string, data: unknown) => void)[] = []
    const ends: (() => void)[] = []
    const server = await startServer({
      tokens: [billing, other],
      limits: { readWithinMs: 500, streamsPerTokenMax: 1 },
      routes: [
        {
          method: 'GET',
          path: '/feed',
          right: 'lock',
          summary: 'Sends.',
          handle: async () => {
            const attach: EventFeed['attach'] = (send, end) => {
              sends.push(send)
              ends.push(end)
              return { [Symbol.dispose]() {} }
            }
            return events({ attach })
          },
        },
      ],
    })
    const gauge = async (name: string): Promise<number> => {
      const { text } = await get(`${server.url}/metrics`, tokenOf('other'))
      return Number(new RegExp(`^leasehold_server_${name} (\\d+)`, 'm').exec(text)?.[1])
    }
    for (const end of [() => server.replaceTokens([other]), () => ends.at(-1)?.()]) {
      server.replaceTokens([billing, other])
      const count = sends.length
      const caller = connect(Number(new URL(server.url).port), '127.0.0.1').pause()
      onTestFinished(() => void caller.destroy())
      caller.on('error', () => {})
      caller.write(`GET /feed HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${tokenOf('ci')}\r\n\r\n`)
      await eventually(() => sends.length > count, 'the stream')
      // Until the system takes no more of it.
      while ((await gauge('held_bytes')) < 30_000) sends.at(-1)?.('more', 'x'.repeat(60_000))
      end()
      const isOver = async () => (await gauge('streams_under_way')) + (await gauge('held_bytes')) === 0
      await eventually(isOver, 'the end of the stream', 20_000)
    }
  })

  test('ends its calls that wait: their signal aborts', async () => {
    let aborted: unknown
    const server = await startServer({
      tokens: [billing, other],
      routes: [
        {
          method: 'GET',
          path: '/wait',
          right: 'lock',
          summary: 'Waits.',
          handle: ({ signal }) =>
            new Promise((_, reject) => {
              signal.addEventListener('abort', () => reject((aborted = signal.reason)))
            }),
        },
      ],
    })
    const waiting = get(`${server.url}/wait`, tokenOf('ci'))
    await expect.poll(async () => (await get(`${server.url}/metrics`, tokenOf('other'))).text).toContain('under_way 2')
    server.replaceTokens([other])
    expect(await waiting).toMatchObject({ status: 401 })
    expect(aborted).toMatchObject({ name: 'HttpError' })
  })
})

test.each<[string, object, RegExp]>([
  ['secrets that are no list', { secrets: {} }, /are a list/],
  ['a secret that is too short', { secrets: [{ token: 'short' }] }, /16 to 512/],
  ['a secret with an unknown field', { secrets: [{ token: tokenOf('b'), x: 1 }] }, /"x"/],
  ['the same secret twice', { secrets: [{ token: tokenOf('ci') }] }, /twice/],
  ['a grant without rights', { grants: [{ namespaces: '*' }] }, /needs rights/],
  ['a grant for nothing', { grants: [{ rights: ['read'] }] }, /needs namespaces/],
  ['no grant in its list', { grants: [] }, /not empty/],
  ['a prefix without a namespace', { grants: [{ prefixes: ['builds'], rights: ['read'] }] }, /without a namespace/],
  ['a certificate of no known kind', { certificates: ['ip:10.0.0.1'] }, /dns:, uri:, email: or cn:/],
  ['a rate of nothing', { rate: { perSecond: 0 } }, /numbers above 0/],
])('a token with %s is refused with a reason, and not quoted', async (_, more, reason) => {
  const starting = startServer({ tokens: [{ ...billing, ...more }] })
  await expect(starting).rejects.toMatchObject({ code: 'INVALID', message: expect.stringMatching(reason) })
  await expect(starting).rejects.not.toMatchObject({ message: expect.stringMatching(/secret-of|short\b/) })
})

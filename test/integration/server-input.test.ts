import { once } from 'node:events'
import { connect as connectSocket } from 'node:net'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Claim, LockDriver } from '../../src/core/contract/driver.ts'
import { byteRange, inode, issue, named, path, storeKey } from '../../src/core/contract/scope.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { serve, type LeaseholdServer, type ServerLimits, type ServeOptions } from '../../src/server/index.ts'
import { get, post, postRequests } from '../support/called.ts'
import { claimOf } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { startServer } from '../support/started-server.ts'
import { deferred } from '../support/deferred.ts'

const claim = claimOf('default/named:one')
const refusal = (message: RegExp) => ({ error: { code: 'INVALID', message: expect.stringMatching(message) } })

/** Objects inside each other. */
function nested(levels: number): object {
  return levels === 1 ? {} : { deeper: nested(levels - 1) }
}

describe('a request that makes no sense is INVALID, and the answer says where', () => {
  test.each<[string, unknown, RegExp]>([
    ['no object', [], /^The body must be an object/],
    ['no list', { requests: {} }, /^requests must be a list/],
    ['another field', { requests: [], more: 1 }, /has a field "more"/],
    ['no op', { requests: [{}] }, /^requests\[0\]\.op must be one of claim, renew/],
    ['an unknown op', { requests: [{ op: 'steal' }] }, /^requests\[0\]\.op/],
    ['nothing', { requests: [null] }, /^requests\[0\]\.op/],
    ['a field of another op', { requests: [{ op: 'release', key: 'a/b', id: 'x', ttlMs: 5 }] }, /has a field "ttlMs"/],
    ['an empty key', { requests: [{ op: 'release', key: '', id: 'x' }] }, /\.key must not be empty/],
    ['a long key', { requests: [{ op: 'release', key: 'k'.repeat(1025), id: 'x' }] }, /\.key must be at most 1024/],
    ['a broken key', { requests: [{ op: 'release', key: '\ud800', id: 'x' }] }, /\.key must be well-formed/],
    ['a negative fence', { requests: [{ op: 'evict', key: 'a/b', fence: -1, reason: '' }] }, /\.fence must be/],
    ['a fence with a fraction', { requests: [{ op: 'evict', key: 'a/b', fence: 1.5, reason: '' }] }, /\.fence must be/],
    ...(
      [
        [{ id: 7 }, /^requests\[1\]\.claim\.id must be text/],
        ...[
          'one',
          'named:one',
          'default/one',
          'default/named:',
          'default/named:a\u001b[2J',
          'default/named:a\u009b2J',
          'default/named:a\u202eb',
          `default/named:${'a'.repeat(513)}`,
          'default/ki\u001bnd:one',
          'default/kind:one',
          'default/path:one',
          'default/path:/a/../b',
          'default/inode:07',
          'default/inode:-1',
          'default/issue:0',
          '-default/named:one',
          'de\u001bfault/named:one',
          `${'a'.repeat(65)}/named:one`,
        ].map((key) => [{ key }, /\.claim\.key must be NAMESPACE\/KIND:NAME in its normal form/] as const),
        [{ mode: 'sharing' }, /\.mode must be one of exclusive, shared/],
        [{ ttlMs: 0 }, /\.ttlMs must be a whole number from 1/],
        [{ ttlMs: '5s' }, /\.ttlMs/],
        [{ priority: 1001 }, /\.priority must be a whole number from -1000 to 1000/],
        [{ wait: 1 }, /\.wait must be true or false/],
        [{ limit: 0 }, /\.limit/],
        [{ range: { start: 5, end: 5 } }, /\.range must end after its start/],
        [{ range: { start: 0, end: 5, step: 1 } }, /\.range has a field "step"/],
        [{ evict: 'everybody' }, /\.evict must be one of/],
        [{ graceMs: -1 }, /\.graceMs/],
        [{ runner: null }, /\.runner must be an object/],
        [{ runner: { ...claim.runner, pid: 'x' } }, /\.runner\.pid/],
        [{ runner: { ...claim.runner, metadata: [] } }, /\.runner\.metadata must be an object/],
        [{ runner: { ...claim.runner, metadata: { long: 'x'.repeat(20_000) } } }, /at most 17408 bytes of JSON/],
        [{ runner: { ...claim.runner, metadata: nested(65) } }, /\.runner\.metadata must be nested at most 64 deep/],
        [{ id: 'a\0b' }, /\.claim\.id must not have a NUL character/],
        [{ surprise: true }, /\.claim has a field "surprise"/],
      ] as const
    ).map(([change, message]): [string, unknown, RegExp] => [
      JSON.stringify(change).slice(0, 60),
      {
        requests: [
          { op: 'release', key: 'a/b', id: 'x' },
          { op: 'claim', claim: { ...claim, ...change } },
        ],
      },
      message,
    ]),
  ])('%s', async (_, body, message) => {
    const { url } = await startServer()
    const answer = await post(`${url}/v1/requests`, JSON.stringify(body))
    expect(answer).toMatchObject({ status: 400, value: refusal(message) })
  })

  test('every key that a scope makes is taken, whatever its name', async () => {
    const { url } = await startServer()
    const scopes = [
      named('a:b/../c "d" é 日本🔒'),
      named('x'.repeat(512)),
      path('/'),
      path('/a b/ö'),
      inode(0),
      issue(1),
    ]
    const keys = [...scopes, byteRange(2 ** 53 - 1, 0, 1)].map(({ key }) => storeKey('a.B_c-9', key))
    const answer = await postRequests(
      url,
      keys.map((key) => ({ op: 'claim', claim: claimOf(key) })),
    )
    expect(answer).toMatchObject({ status: 200, value: { statuses: keys.map(() => ({ state: 'held' })) } })
  })

  test('what the store cannot do is UNSUPPORTED', async () => {
    const driver = memory()
    const limited: LockDriver = {
      name: 'limited',
      supports: { ...driver.supports, range: false, evict: [], ttlMaxMs: 1000 },
      open: () => driver.open(),
      send: (requests) => driver.send(requests),
      list: (query) => driver.list(query),
      close: () => driver.close(),
    }
    const { url } = await startServer({ driver: limited })
    const ranged = claimOf('default/named:one', { ttlMs: 500, range: { start: 0, end: 1 } })
    expect(await postRequests(url, [{ op: 'claim', claim: ranged }])).toMatchObject({
      status: 501,
      value: { error: { code: 'UNSUPPORTED', message: expect.stringMatching(/cannot do ranges/) } },
    })
    const eviction = { op: 'evict', key: 'default/named:one', fence: 1, reason: 'stuck' } as const
    expect(await postRequests(url, [eviction])).toMatchObject({
      status: 501,
      value: { error: { code: 'UNSUPPORTED', message: expect.stringMatching(/cannot do evictions/) } },
    })
    const long = claimOf('default/named:one', { ttlMs: 2000 })
    expect(await postRequests(url, [{ op: 'claim', claim: long }])).toMatchObject({
      status: 400,
      value: refusal(/ttlMs must be from 1 to 1000/),
    })
    // Whoever shares a call with it, over a server in between or a client that knew the store before this one, has no part in that.
    const short = claimOf('default/named:two', { ttlMs: 500 })
    const together = [long, short, ranged].map((each) => ({ op: 'claim', claim: each }) as const)
    expect(await postRequests(url, together)).toMatchObject({
      status: 200,
      value: {
        statuses: [
          { state: 'unknown', error: { code: 'INVALID' } },
          { state: 'held' },
          { state: 'unknown', error: { code: 'UNSUPPORTED' } },
        ],
      },
    })
  })

  test.each(['limit=0', 'limit=1001', 'limit=x', 'key=a&key=b', 'key=a&prefix=b', 'order=up', 'toString=1'])(
    'a query of %s',
    async (query) => {
      const { url } = await startServer()
      expect(await get(`${url}/v1/keys?${query}`)).toMatchObject({ status: 400, value: { error: { code: 'INVALID' } } })
    },
  )

  test('a session that anybody could guess', async () => {
    const { url } = await startServer()
    expect(await get(`${url}/v1/notifications`, undefined, { 'leasehold-session': 'short' })).toMatchObject({
      status: 400,
    })
    expect(await get(`${url}/v1/notifications`)).toMatchObject({ status: 400 })
  })

  test('other paths and methods', async () => {
    const { url } = await startServer()
    expect(await get(`${url}/v1/nothing`)).toMatchObject({ status: 404 })
    expect(await get(`${url}/v1/keys/`)).toMatchObject({ status: 404 })
    const wrongMethod = await get(`${url}/v1/requests`)
    expect(wrongMethod).toMatchObject({ status: 405 })
    expect(wrongMethod.headers.get('allow')).toBe('POST')
  })
})

test('whatever is posted, the server neither fails nor falls', { timeout: 60_000 }, async () => {
  const complaints: string[] = []
  const logger = { debug: () => {}, info: () => {}, warn: (message: string) => void complaints.push(message) }
  const { url } = await startServer({ logger })
  const value = fc.jsonValue({ maxDepth: 3 })
  const field = fc.constantFrom<keyof Claim>('id', 'key', 'mode', 'limit', 'range', 'ttlMs', 'runner', 'evict', 'wait')
  const changedClaim = fc
    .tuple(field, value)
    .map(([name, changed]) => ({ op: 'claim', claim: { ...claim, [name]: changed } }))
  const request = fc.oneof(
    value,
    changedClaim,
    fc.record({
      op: fc.constantFrom('claim', 'renew', 'release', 'withdraw', 'evict'),
      key: value,
      id: value,
      ttlMs: value,
    }),
  )
  const body = fc.oneof(
    fc.string(),
    value.map((any) => JSON.stringify(any)),
    fc.array(request, { maxLength: 4 }).map((requests) => JSON.stringify({ requests })),
    fc.integer({ min: 1, max: 50_000 }).map((depth) => `{"requests":${'['.repeat(depth)}${']'.repeat(depth)}}`),
    fc.integer({ min: 1, max: 20_000 }).map((depth) =>
      JSON.stringify({
        requests: [{ op: 'claim', claim: { ...claim, runner: { ...claim.runner, metadata: 'M' } } }],
      }).replace('"M"', `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`),
    ),
  )
  await fc.assert(
    fc.asyncProperty(body, async (text) => {
      const { status, value: answer } = await post(`${url}/v1/requests`, text)
      expect([200, 400, 501]).toContain(status)
      expect(answer).toHaveProperty(status === 200 ? 'statuses' : 'error.code')
    }),
    { numRuns: 400, seed: 1 },
  )
  expect(complaints).toEqual([])
  expect(await get(`${url}/healthz`)).toMatchObject({ status: 200 })
})

describe('there is a limit', () => {
  const limited = (limits: Partial<ServerLimits>, options: Partial<ServeOptions> = {}): Promise<LeaseholdServer> =>
    startServer({ ...options, limits })

  test('to the length of a body, told or not', async () => {
    const { url } = await limited({ bodyBytesMax: 1000 })
    const long = JSON.stringify({ requests: [], more: 'x'.repeat(2000) })
    expect(await post(`${url}/v1/requests`, long)).toMatchObject({
      status: 413,
      value: refusal(/longer than 1000 bytes/),
    })
    const piece = new TextEncoder().encode('x'.repeat(600))
    const untold = new ReadableStream({
      pull(controller) {
        controller.enqueue(piece)
      },
    })
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: untold,
      duplex: 'half',
    } as RequestInit
    // Whoever goes on sending may lose the answer with the connection; what matters is that it is not taken in.
    const status = await fetch(`${url}/v1/requests`, init).then(
      (response) => response.status,
      () => 413,
    )
    expect(status).toBe(413)
  })

  test('to the requests of a call', async () => {
    const { url } = await limited({ requestsPerCallMax: 2 })
    const { key, id } = claim
    const requests = [1, 2, 3].map(() => ({ op: 'release', key, id }) as const)
    expect(await postRequests(url, requests)).toMatchObject({ status: 400, value: refusal(/2 are allowed a call/) })
  })

  test('to the length of a URL', async () => {
    const { url } = await limited({ urlLengthMax: 100 })
    expect(await get(`${url}/v1/keys?key=${'x'.repeat(100)}`)).toMatchObject({ status: 414 })
  })

  test('to how long a body and a head may take', async () => {
    const { url } = await limited({ bodyWithinMs: 50, headersWithinMs: 50 })
    const head =
      'POST /v1/requests HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{'
    expect(await spoken(url, head)).toMatch(/^HTTP\/1\.1 408 /)
    expect(await spoken(url, 'GET /v1/store HTT')).toMatch(/^HTTP\/1\.1 408 /)
  })

  test('to the calls under way and to the streams', async () => {
    const driver = memory()
    const { promise: held, resolve: letGo } = deferred()
    const list = driver.list.bind(driver)
    driver.list = async (query) => {
      await held
      return list(query)
    }
    const { url } = await limited({ callsMax: 1, streamsMax: 1 }, { driver })
    const session = { 'leasehold-session': 'a'.repeat(22) }
    const stream = await fetch(`${url}/v1/notifications`, { headers: session })
    expect(stream.status).toBe(200)
    const second = await get(`${url}/v1/notifications`, undefined, session)
    expect(second).toMatchObject({ status: 429, value: { error: { code: 'UNAVAILABLE', reason: 'busy' } } })
    const first = get(`${url}/v1/keys`)
    let refused = await get(`${url}/v1/store`)
    while (refused.status !== 429) refused = await get(`${url}/v1/store`)
    expect(refused.headers.get('retry-after')).toBe('1')
    letGo()
    expect(await first).toMatchObject({ status: 200 })
    await stream.body?.cancel()
  })

  test('to what may be configured', async () => {
    for (const limits of [{ bodyBytesMax: 0 }, { callsMax: 1.5 }, { bodyMax: 5 } as object]) {
      await expect(serve({ driver: memory(), port: 0, limits })).rejects.toMatchObject({ code: 'INVALID' })
    }
  })
})

test('what is no HTTP at all is answered and cut off', async () => {
  const { url } = await startServer()
  expect(await spoken(url, 'HELLO\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 [\s\S]*"INVALID"/)
})

test('what is no HTTP behind a call that is carried out is not taken for its answer', async () => {
  const driver = memory()
  const { url } = await startServer({ driver })
  const body = JSON.stringify({ requests: [{ op: 'claim', claim }] })
  const head = `POST /v1/requests HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json`
  const said = await spoken(url, `${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}HELLO\r\n\r\n`)
  // 4xx would say that nothing was carried out.
  expect(said).toBe('')
  await eventually(async () => (await driver.list({ key: claim.key })).keys.length === 1, 'the claim')
})

test('streams asked for one behind the other end with their connection', async () => {
  const { url } = await startServer()
  const underWay = async (): Promise<string | undefined> =>
    /streams_under_way (\d+)/.exec((await get(`${url}/metrics`)).text)?.[1]
  const socket = connectSocket(Number(new URL(url).port), '127.0.0.1')
  const call = `GET /v1/notifications HTTP/1.1\r\nhost: localhost\r\nleasehold-session: ${'a'.repeat(22)}\r\n\r\n`
  socket.write(call.repeat(10))
  await once(socket, 'data')
  await eventually(async () => Number(await underWay()) > 0, 'a stream')
  socket.destroy()
  await eventually(async () => (await underWay()) === '0', 'the end of all streams')
})

test('a certificate or key that is none is INVALID', async () => {
  for (const tls of [
    { cert: 'none', key: 'none' },
    { cert: '', key: '' },
  ]) {
    const serving = serve({ driver: memory(), port: 0, tls })
    await expect(serving).rejects.toMatchObject({ code: 'INVALID', message: expect.stringMatching(/PEM/) })
  }
})

/** What the server says to some text before it closes. */
async function spoken(url: string, text: string): Promise<string> {
  const socket = connectSocket(Number(new URL(url).port), '127.0.0.1')
  let received = ''
  socket.setEncoding('utf8').on('data', (piece: string) => (received += piece))
  socket.on('error', () => {})
  socket.write(text)
  await once(socket, 'close')
  return received
}

test('a body of very many small values is refused before it is read, whatever it says, and one with as many as may be is not', async () => {
  const { url } = await startServer()
  const bodyOf = (parts: number): string =>
    JSON.stringify({ requests: [{ op: 'claim', claim: { ...claim, extra: Array.from({ length: parts }, () => 0) } }] })
  const tooMany = await post(`${url}/v1/requests`, bodyOf(200_000))
  expect(tooMany).toMatchObject({ status: 413, value: { error: { code: 'INVALID' } } })
  expect(tooMany.text).toContain('100000 values')
  expect((await post(`${url}/v1/requests`, bodyOf(99_000))).text).toContain('a field \\"extra\\"')
})

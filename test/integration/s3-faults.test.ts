/** What S3, stores that speak it, proxies, networks and operators do to locks that are held, waited for, or just asked for. */
import { setTimeout as pause } from 'node:timers/promises'
import { inspect } from 'node:util'
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { KeyPage, LockDriver } from '../../src/core/contract/driver.ts'
import { systemEnvironment, type Environment } from '../../src/core/time/environment.ts'
import { documentDriver } from '../../src/drivers/document/driver.ts'
import { s3, s3Store } from '../../src/drivers/s3/driver.ts'
import { connect } from '../../src/index.ts'
import { cliBench } from '../unit/support/cli-bench.ts'
import { claim, claimOf, fenceOf, release, renew } from '../support/claims.ts'
import { deferred } from '../support/deferred.ts'
import { eventually } from '../support/eventually.ts'
import { S3Proxy, s3Fault, type Fate, type ProxiedCall } from '../support/s3-proxy.ts'
import { credentialsForTests, freshS3Prefix, S3Server, sdkClient } from '../support/s3-server.ts'
import { opened } from '../support/opened.ts'
import { objectsIn, openS3, unopenedS3 } from '../support/s3-store.ts'

const server = await S3Server.start()
afterAll(() => server.stop())

const isWrite = ({ method, path }: ProxiedCall): boolean => method === 'PUT' && path.includes('/keys/')
const isRead = ({ method, path }: ProxiedCall): boolean => method === 'GET' && path.includes('/keys/')

/** A driver behind a proxy of its own. */
async function behindProxy(options: Parameters<typeof openS3>[2] = {}) {
  const proxy = await S3Proxy.start(server)
  const prefix = freshS3Prefix()
  const driver = await openS3(server, prefix, options, proxy)
  return { proxy, prefix, driver }
}

/** A driver over a client of the AWS SDK, behind a proxy of its own. */
async function behindSdk(options: Parameters<typeof openS3>[2] = {}) {
  const proxy = await S3Proxy.start(server)
  const prefix = freshS3Prefix()
  const client = sdkClient(`http://127.0.0.1:${proxy.port}`)
  onTestFinished(() => client.destroy())
  const driver = await opened(s3({ bucket: server.bucket, prefix, client, ...options }))
  return { proxy, prefix, client, driver }
}

/** Credentials in the environment, until the test is over. */
function inEnvironment(credentials: typeof credentialsForTests | undefined): void {
  const { accessKeyId, secretAccessKey } = credentials ?? {}
  vi.stubEnv('AWS_ACCESS_KEY_ID', accessKeyId)
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', secretAccessKey)
  onTestFinished(() => void vi.unstubAllEnvs())
}

describe('a store that would give a lock to two is refused', () => {
  test.each([
    ['if-none-match', 'If-None-Match'],
    ['if-match', 'If-Match'],
  ])('because it ignores %s', async (header, shown) => {
    const proxy = await S3Proxy.start(server)
    proxy.decide = ({ method }) => (method === 'PUT' ? { without: header } : undefined)
    await expect(unopenedS3(server, {}, proxy).open()).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining(`ignores ${shown}`) as string,
    })
  })

  test('because it knows no conditions', async () => {
    const proxy = await S3Proxy.start(server)
    const body = s3Fault('NotImplemented')
    proxy.decide = ({ method }) => (method === 'PUT' ? { answer: 501, body } : undefined)
    const opening = unopenedS3(server, {}, proxy).open()
    await expect(opening).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'configuration' })
  })
})

describe('a write that was carried out, and sent again on its way, is known by its nonce', () => {
  test('by the AWS SDK, after the connection was cut', async () => {
    const proxy = await S3Proxy.start(server)
    const client = sdkClient(`http://127.0.0.1:${proxy.port}`, 3)
    onTestFinished(() => client.destroy())
    const driver = await openS3(server, freshS3Prefix(), { client })
    proxy.next(isWrite, { cut: 'after' })
    const wanted = claimOf('a')
    const status = await claim(driver, wanted)
    expect(proxy.log.filter(isWrite).map((call) => call.status)).toEqual([0, 412])
    // Its own write counts, with its whole lease: it was not somebody else's.
    expect(status).toMatchObject({ state: 'held', ttlMs: wanted.ttlMs })
    proxy.next(isWrite, { cut: 'after' })
    expect(await release(driver, wanted)).toEqual({ state: 'absent', reason: 'released' })
  })

  test('by this driver, after S3 failed by itself', async () => {
    const { proxy, driver } = await behindProxy()
    proxy.next(isWrite, { answer: 500, body: s3Fault('InternalError'), after: true })
    const wanted = claimOf('a')
    expect(await claim(driver, wanted)).toMatchObject({ state: 'held', ttlMs: wanted.ttlMs })
    expect(proxy.log.filter(isWrite).map(({ status }) => status)).toEqual([500, 412])
    proxy.next(isWrite, { answer: 500, body: s3Fault('InternalError'), after: true })
    expect(await release(driver, wanted)).toEqual({ state: 'absent', reason: 'released' })
  })

  test('and where the reply is lost for good, the claim is unknown, and found when it is sent again', async () => {
    const { proxy, driver } = await behindProxy()
    proxy.next(isWrite, { cut: 'after' })
    const wanted = claimOf('a')
    expect(await claim(driver, wanted)).toMatchObject({ state: 'unknown', error: { reason: 'network' } })
    const again = await claim(driver, wanted)
    expect(again).toMatchObject({ state: 'held' })
    expect((again as { ttlMs: number }).ttlMs).toBeLessThanOrEqual(wanted.ttlMs)
    expect(await release(driver, wanted)).toEqual({ state: 'absent', reason: 'released' })
  })
})

describe('a proxy on the way', () => {
  test('that hides the ETag costs nobody the lock: nothing is written on an empty condition', async () => {
    const { prefix, client, driver } = await behindSdk()
    await claim(driver, claimOf('a'))
    client.middlewareStack.add(
      (next, { commandName }) =>
        async (call) => {
          const result = await next(call)
          const { headers } = result.response as { headers: Record<string, string> }
          if (commandName === 'GetObjectCommand') delete headers['etag']
          return result
        },
      { step: 'deserialize', priority: 'low' },
    )
    const waiting = claimOf('a')
    await expect(claim(driver, waiting)).rejects.toThrow('no ETag')
    const other = await openS3(server, prefix)
    expect(await claim(other, waiting)).toMatchObject({ state: 'waiting' })
  })

  test('that compresses, and calls ETags weak, is no obstacle', async () => {
    const fetchWeak = async (...[url, init]: Parameters<typeof fetch>): Promise<Response> => {
      const { body, status, headers } = await fetch(url, init)
      const weak = new Headers(headers)
      if (headers.has('etag')) weak.set('etag', `W/${headers.get('etag')}`)
      return new Response(body, { status, headers: weak })
    }
    const driver = await openS3(server, freshS3Prefix(), { fetch: fetchWeak })
    const held = claimOf('a')
    await claim(driver, held)
    expect(await release(driver, held)).toMatchObject({ state: 'absent', reason: 'released' })
  })
})

test('a 404 that is not of the object says nothing about the lock', async () => {
  const { proxy, prefix, driver } = await behindProxy()
  const held = claimOf('a')
  await claim(driver, held)
  const other = await openS3(server, prefix, {}, proxy)
  for (const fate of [
    { answer: 404, body: '<html>Not Found</html>' },
    { answer: 404, body: s3Fault('NoSuchBucket') },
  ]) {
    proxy.decide = (call) => (isRead(call) ? fate : undefined)
    await expect(claim(other, claimOf('a', { wait: false }))).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await expect(renew(driver, held)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  }
  proxy.decide = () => undefined
  expect(await renew(driver, held)).toMatchObject({ state: 'held' })
})

describe('a lost race is run again', () => {
  test.each([
    ['409', { answer: 409, body: s3Fault('ConditionalRequestConflict') }],
    ['412', { answer: 412, body: s3Fault('PreconditionFailed') }],
    ['404, as the object is gone', { answer: 404, body: s3Fault('NoSuchKey') }],
  ])('after %s', async (_, fate) => {
    const { proxy, driver } = await behindProxy()
    proxy.next(isWrite, fate, fate)
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held' })
    expect(proxy.log.filter(isWrite)).toHaveLength(3)
  })

  test('and one of twenty drivers wins, the others wait in their order', { timeout: 60_000 }, async () => {
    const prefix = freshS3Prefix()
    const drivers = await Promise.all(Array.from({ length: 20 }, () => openS3(server, prefix, { timeout: '60s' })))
    const statuses = await Promise.all(drivers.map((driver) => claim(driver, claimOf('a'))))
    expect(statuses.filter(({ state }) => state === 'held')).toHaveLength(1)
    const places = statuses.flatMap((status) => (status.state === 'waiting' ? [status.ahead] : []))
    expect(places.toSorted((one, other) => one - other)).toEqual(Array.from({ length: 19 }, (_, place) => place))
  })
})

test('old content that is written back is new to S3, whose ETags are hashes of the content', async () => {
  const prefix = freshS3Prefix()
  const driver = await openS3(server, prefix)
  const turn = async (): Promise<string> => {
    const wanted = claimOf('a')
    await claim(driver, wanted)
    await release(driver, wanted)
    const head = await server.client.headObject({ Bucket: server.bucket, Key: `${prefix}keys/a` })
    const { ETag = '', CacheControl } = head
    expect(CacheControl, 'no cache on the way may answer an older copy').toBe('no-store')
    return ETag
  }
  const [early, late] = [await turn(), await turn()]
  expect(early).not.toBe(late)
  const write = { Bucket: server.bucket, Key: `${prefix}keys/a`, Body: 'late', IfMatch: early }
  await expect(server.client.putObject(write)).rejects.toMatchObject({ name: 'PreconditionFailed' })
})

describe('S3 asks for a pause', () => {
  test.each([
    ['503 SlowDown', { answer: 503, body: s3Fault('SlowDown') }],
    ['429 of a store that says when', { answer: 429, headers: { 'retry-after': '0' } }],
    ['500 InternalError', { answer: 500, body: s3Fault('InternalError') }],
    ['a proxy that cannot reach it', { answer: 502, body: '<html>Bad Gateway</html>' }],
  ])('and gets it: %s', async (_, fate) => {
    const { proxy, driver } = await behindProxy()
    proxy.next(isRead, fate, fate)
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held' })
    expect(proxy.log.filter(isRead)).toHaveLength(3)
  })

  test('and gets one though it says "at once", and credentials are not asked for again', async () => {
    let asked = 0
    const credentials = async () => {
      asked += 1
      return credentialsForTests
    }
    const { proxy, driver } = await behindProxy({ credentials })
    const fate = { answer: 503, headers: { 'retry-after': '0' } }
    proxy.next(isRead, fate, fate)
    const startedAt = performance.now()
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held' })
    expect(asked).toBe(1)
    expect(performance.now() - startedAt).toBeGreaterThan(90)
  })

  test.each([
    ['SlowDown', { answer: 503, body: s3Fault('SlowDown') }, 1000],
    ['429', { answer: 429, headers: { 'retry-after': '7' } }, 7000],
    ['a proxy that names a year', { answer: 503, headers: { 'retry-after': '31536000' } }, 600_000],
  ])(
    'for longer than a call may take: the caller is told when to try again, after %s',
    async (_, fate, retryAfterMs) => {
      const { proxy, driver } = await behindProxy()
      proxy.decide = (call) => (isRead(call) ? fate : undefined)
      await expect(claim(driver, claimOf('a'))).rejects.toMatchObject({
        code: 'UNAVAILABLE',
        reason: 'rate-limit',
        retryAfterMs,
      })
      expect(proxy.log.filter(isRead).length).toBeLessThanOrEqual(4)
    },
  )
})

describe('everything is bounded', () => {
  test('a store that stands still: a call ends in its time, a renewal in a third of its ttl', async () => {
    const { proxy, driver } = await behindProxy({ timeout: '30s' })
    const held = claimOf('a', { ttlMs: 6000 })
    await claim(driver, held)
    proxy.decide = () => 'stall'
    const startedAt = performance.now()
    await expect(renew(driver, held)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'no-answer' })
    expect(performance.now() - startedAt).toBeLessThan(10_000)
    proxy.decide = () => undefined
    expect(await renew(driver, held)).toMatchObject({ state: 'held' })
  })

  test('nothing survives the closing, though the store stood still while it was asked', async () => {
    const { proxy, driver } = await behindProxy({ timeout: '10m' })
    let stalled = 0
    proxy.decide = () => {
      stalled += 1
      return 'stall'
    }
    const asking = claim(driver, claimOf('a')).catch((error: unknown) => error)
    await eventually(() => stalled > 0, 'the call')
    await driver.close()
    expect(await asking).toMatchObject({ code: 'UNAVAILABLE' })
  })

  test('neither while it was opened, nor while a key was watched', async () => {
    const proxy = await S3Proxy.start(server)
    let stalled = 0
    const stall = (): Fate => {
      stalled += 1
      return 'stall'
    }
    proxy.decide = stall
    const unopened = unopenedS3(server, { timeout: '10m' }, proxy)
    const opening = unopened.open().catch((error: unknown) => error)
    await eventually(() => stalled > 0, 'a call')
    await unopened.close()
    expect(await opening).toMatchObject({ code: 'CLOSED' })
    proxy.decide = () => undefined
    const driver = await openS3(server, freshS3Prefix(), { timeout: '10m' }, proxy)
    await claim(driver, claimOf('a', { ttlMs: 3000 }))
    stalled = 0
    proxy.decide = stall
    await eventually(() => stalled > 0, 'a reading')
    await driver.close()
  })

  test('an answer that has no end is cut', { timeout: 60_000 }, async () => {
    const { proxy, driver } = await behindProxy({ timeout: '60s' })
    proxy.next(isRead, 'endless')
    await expect(claim(driver, claimOf('a'))).rejects.toThrow('longer than')
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held' })
  })

  test('an answer to the AWS SDK that has no end, too', { timeout: 60_000 }, async () => {
    const { proxy, driver } = await behindSdk({ timeout: '60s' })
    proxy.next(isRead, 'endless')
    await expect(claim(driver, claimOf('a'))).rejects.toThrow('longer than')
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held' })
  })

  test('a client of the user is asked nothing more after close, though a lost race was to be run again', async () => {
    const { proxy, prefix, client } = await behindSdk()
    const real = systemEnvironment()
    const pausing = deferred()
    // Pauses after a lost race go on until the driver is closed.
    const timer: Environment['timer'] = (_ms, action) => {
      pausing.resolve()
      return real.timer(500, action)
    }
    const store = s3Store({ bucket: server.bucket, prefix, client })
    const driver = await opened(documentDriver(store, { ...real, timer }))
    let calls = 0
    proxy.decide = (call) => {
      calls += 1
      return isWrite(call) ? { answer: 409, body: s3Fault('ConditionalRequestConflict') } : undefined
    }
    const claiming = claim(driver, claimOf('a')).catch((error: unknown) => error)
    await pausing.promise
    await driver.close()
    const before = calls
    expect(await claiming).toMatchObject({ code: 'UNAVAILABLE' })
    expect(calls).toBe(before)
  })

  test('so many calls are under way at once', async () => {
    const { proxy, driver } = await behindProxy({ callsMax: 3, timeout: '60s' })
    let most = 0
    let now = 0
    proxy.decide = () => {
      most = Math.max(most, (now += 1))
      setTimeout(() => (now -= 1), 2)
      return undefined
    }
    const requests = Array.from(
      { length: 12 },
      (_, index) => ({ op: 'claim', claim: claimOf(`key-${index}`) }) as const,
    )
    expect((await driver.send(requests)).every(({ state }) => state === 'held')).toBe(true)
    expect(most).toBeLessThanOrEqual(3)
  })
})

describe('an error says what to do', () => {
  const named = (code: string, more?: string) => s3Fault(code, more)
  test.each([
    [403, named('RequestTimeTooSkewed'), 'clock', 'NTP'],
    [403, named('InvalidAccessKeyId'), 'auth', 'AWS_ACCESS_KEY_ID'],
    [403, named('SignatureDoesNotMatch'), 'auth', 'AWS_SECRET_ACCESS_KEY'],
    [400, named('InvalidToken'), 'auth', 'AWS_ACCESS_KEY_ID'],
    [400, named('ExpiredToken'), 'auth', 'credentials'],
    [403, named('AccessDenied'), 'auth', 's3:ListBucket'],
    [403, '', 'auth', 's3:GetObject'],
    [404, named('NoSuchBucket'), 'configuration', 'Create the bucket'],
    [301, named('PermanentRedirect'), 'configuration', 'another region'],
    [400, named('AuthorizationHeaderMalformed', '<Region>eu-west-2</Region>'), 'configuration', 'region to eu-west-2'],
    [404, '<html>Not Found</html>', 's3', 'Nothing was changed'],
    [200, 'no S3', 'network', ''],
  ])('%i %s', async (answer, body, reason, advice) => {
    const proxy = await S3Proxy.start(server)
    proxy.decide = () => ({ answer, body })
    const driver = unopenedS3(server, {}, proxy)
    await expect(driver.open()).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      reason,
      message: expect.stringContaining(advice) as string,
    })
  })

  test('of a bucket that is not there, as the server itself answers', async () => {
    const driver = unopenedS3(server, { bucket: 'no-such-bucket' })
    await expect(driver.open()).rejects.toMatchObject({ reason: 'configuration' })
    const client = unopenedS3(server, { bucket: 'no-such-bucket', client: server.client })
    await expect(client.open()).rejects.toMatchObject({ reason: 'configuration' })
  })

  test('of a server that is not there', async () => {
    await expect(unopenedS3(server, {}, { port: 1 }).open()).rejects.toMatchObject({ reason: 'network' })
  })

  test('and never a secret', async () => {
    const secret = 's3cret/+key'
    const credentials = { accessKeyId: 'AKIASECRET', secretAccessKey: secret, sessionToken: 's3cret-token' }
    const proxy = await S3Proxy.start(server)
    proxy.decide = ({ path }) => ({
      answer: 403,
      body: s3Fault('SignatureDoesNotMatch', `<StringToSign>${path}</StringToSign>`),
    })
    const client = sdkClient(`http://127.0.0.1:${proxy.port}`)
    onTestFinished(() => client.destroy())
    for (const options of [{ credentials }, { client }]) {
      const error: unknown = await unopenedS3(server, options, proxy)
        .open()
        .catch((thrown: unknown) => thrown)
      const shown = inspect(error, { depth: 12, showHidden: true })
      expect(shown).toContain('SignatureDoesNotMatch')
      for (const hidden of [
        secret,
        's3cret-token',
        credentialsForTests.secretAccessKey,
        'Signature=',
        'authorization',
      ]) {
        expect(shown).not.toContain(hidden)
      }
    }
  })
})

test.each(['accessKeyId', 'secretAccessKey', 'sessionToken'])(
  'a line break in the %s is named, and what stands before it is not printed',
  async (name) => {
    const credentials = { ...credentialsForTests, [name]: 's3cret\nmore' }
    const error: unknown = await unopenedS3(server, { credentials })
      .open()
      .catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'UNAVAILABLE', reason: 'auth' })
    const shown = inspect(error, { depth: 12, showHidden: true })
    expect(shown).toContain(`The ${name} for S3 has`)
    expect(shown).not.toContain('s3cret')
  },
)

describe('credentials', () => {
  test('of a function are asked for once, and anew when S3 says that they have ended', async () => {
    let asked = 0
    const credentials = async () => {
      asked += 1
      return { ...credentialsForTests, sessionToken: `token-${asked}` }
    }
    const { proxy, driver } = await behindProxy({ credentials })
    await claim(driver, claimOf('a'))
    expect(asked).toBe(1)
    proxy.next(isRead, { answer: 400, body: s3Fault('ExpiredToken') })
    expect(await claim(driver, claimOf('b'))).toMatchObject({ state: 'held' })
    expect(asked).toBe(2)
  })

  test('of a function that fails are an error, and asked for again by the next call', async () => {
    let isFailing = true
    const credentials = async () => {
      if (isFailing) throw new Error('no role')
      return credentialsForTests
    }
    const driver = unopenedS3(server, { credentials })
    await expect(driver.open()).rejects.toThrow('no role')
    isFailing = false
    await driver.open()
  })

  test('are in the environment for a URL, and without them the error says which', async () => {
    const prefix = freshS3Prefix()
    inEnvironment(undefined)
    await expect(connect(server.url(prefix))).rejects.toThrow('AWS_ACCESS_KEY_ID')
    inEnvironment(credentialsForTests)
    const locks = await connect(server.url(prefix))
    onTestFinished(() => locks.close())
    expect((await locks.acquire('a')).fence).toBeGreaterThan(0)
    expect(await objectsIn(server, prefix)).toEqual(['keys/default_2Fnamed_3Aa', 'probe'])
  })
})

test('names with dots, slashes, signs and any characters have an object each, of a name that nothing rewrites', async () => {
  const prefix = freshS3Prefix()
  const driver = await openS3(server, prefix, { timeout: '60s' })
  const long = 'ü'.repeat(500)
  const names = [
    '.',
    '..',
    '../a',
    'a/b',
    'a//b',
    'a b',
    'a+b',
    'a%2Fb',
    'a_b',
    'a~b',
    'ä',
    '🔒',
    '\u0001',
    long,
    `${long}1`,
    `${long}2`,
  ]
  const statuses = await driver.send(names.map((name) => ({ op: 'claim', claim: claimOf(name) }) as const))
  expect(statuses.map(({ state }) => state)).toEqual(names.map(() => 'held'))
  const listed = (await driver.list({ limit: 1000 })).keys.map(({ key }) => key)
  expect(listed.toSorted()).toEqual(names.toSorted())
  expect((await driver.list({ prefix: long })).keys).toHaveLength(3)
  const objects = await objectsIn(server, prefix)
  expect(objects).toHaveLength(names.length + 1)
  expect(objects.every((name) => /^(?:probe|keys\/[\w~-]{1,720})$/.test(name))).toBe(true)
})

test('a lock costs what the page says: two reads and two writes, and a write and a read for each renewal', async () => {
  const { proxy, driver } = await behindProxy({ waitMax: '2s' })
  const requests = (): readonly string[] => proxy.log.splice(0).map(({ method }) => method)
  requests()
  const wanted = claimOf('a')
  await claim(driver, wanted)
  expect(requests()).toEqual(['GET', 'PUT'])
  await renew(driver, wanted)
  expect(requests()).toEqual(['GET', 'PUT'])
  await release(driver, wanted)
  expect(requests()).toEqual(['GET', 'PUT'])
  proxy.log.length = 0
  const another = unopenedS3(server, {}, proxy)
  await another.open()
  expect(requests().toSorted()).toEqual(['GET', 'GET', 'GET', 'GET', 'PUT', 'PUT', 'PUT'])
})

/** What S3 answers to a listing. */
const listing = (objects: readonly { readonly name: string; readonly bytes: number }[], isLast: boolean): string =>
  '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult>' +
  `<IsTruncated>${!isLast}</IsTruncated>` +
  objects.map(({ name, bytes }) => `<Contents><Key>${name}</Key><Size>${bytes}</Size></Contents>`).join('') +
  '</ListBucketResult>'

const isListing = ({ method, path }: ProxiedCall): boolean => method === 'GET' && path.includes('list-type=2')

test('a listing of idle locks only ends its pages after so many requests, and says where to go on', async () => {
  const { proxy, prefix, driver } = await behindProxy()
  const last = 99_999
  proxy.decide = (call) => {
    if (!isListing(call)) return undefined
    const parameters = new URL(call.path, 'http://s3').searchParams
    const from = Number(/\d+$/.exec(parameters.get('start-after') ?? '')?.[0] ?? 0) + 1
    const count = Math.min(Number(parameters.get('max-keys')), last - from + 1)
    const numbers = Array.from({ length: count }, (_, index) => String(from + index).padStart(5, '0'))
    const objects = numbers.map((number) => ({ name: `${prefix}keys/idle_2F${number}`, bytes: 90 }))
    return { answer: 200, body: listing(objects, from + count > last) }
  }
  const before = proxy.log.length
  const first = await driver.list({})
  expect(first.keys).toEqual([])
  expect(first.next).toMatch(/^idle\/\d{5}$/)
  expect(proxy.log.length - before).toBeLessThanOrEqual(10)
  let pages = 1
  for (let after = first.next; after !== undefined; pages += 1) after = (await driver.list({ after })).next
  expect(pages).toBeGreaterThan(5)
  // Many names a request: a request costs the same for one and for a thousand.
  expect(proxy.log.length - before).toBeLessThan(200)
})

test('a listing finds what idle locks surround, once each, and pages of any size join up', async () => {
  const { proxy, prefix, driver } = await behindProxy()
  const names = Array.from({ length: 8 }, (_, index) => `named:lock/${index} ü_~`)
  for (const name of names) await claim(driver, claimOf(name))
  const real = (await objectsIn(server, '')).filter((name) => name.startsWith(`${prefix}keys/`)).toSorted()
  // Three thousand idle locks behind each.
  const all = real.flatMap((name) => [
    { name, bytes: 500 },
    ...Array.from({ length: 3000 }, (_, index) => ({ name: `${name}-${String(index).padStart(4, '0')}`, bytes: 90 })),
  ])
  proxy.decide = (call) => {
    if (!isListing(call)) return undefined
    const parameters = new URL(call.path, 'http://s3').searchParams
    const after = parameters.get('start-after') ?? ''
    const passed = all.findIndex(({ name }) => name > after)
    const left = passed < 0 ? [] : all.slice(passed)
    const count = Number(parameters.get('max-keys'))
    return { answer: 200, body: listing(left.slice(0, count), left.length <= count) }
  }
  for (const limit of [1, 3, 100]) {
    const seen: string[] = []
    for (let after: string | undefined = ''; after !== undefined;) {
      const page: KeyPage = await driver.list({ after, limit })
      expect(page.keys.length).toBeLessThanOrEqual(limit)
      seen.push(...page.keys.map(({ key }) => key))
      after = page.next
    }
    expect(seen).toEqual(names)
  }
})

test('a store that does not list names in order is refused when it is listed, and not asked for ever', async () => {
  const { proxy, prefix, driver } = await behindProxy()
  proxy.decide = (call) => {
    const body = listing([{ name: `${prefix}keys/a`, bytes: 90 }], false)
    return isListing(call) ? { answer: 200, body } : undefined
  }
  await expect(driver.list({})).rejects.toMatchObject({ code: 'UNSUPPORTED' })
})

test('a pause before another try does not outlive the driver', async () => {
  const { proxy, driver } = await behindProxy({ timeout: '60s' })
  proxy.decide = (call) => (isRead(call) ? { answer: 503, headers: { 'retry-after': '30' } } : undefined)
  const claiming = claim(driver, claimOf('a')).catch((error: unknown) => error)
  await eventually(() => proxy.log.some(({ status }) => status === 503), 'the request')
  await pause(50)
  await driver.close()
  expect(await Promise.race([claiming, pause(10_000)])).toMatchObject({ code: 'UNAVAILABLE' })
})

test('a listing reads no objects of keys that nobody holds', async () => {
  const { proxy, driver } = await behindProxy({ timeout: '60s' })
  const claims = Array.from({ length: 30 }, (_, index) => claimOf(`key-${index}`))
  await driver.send(claims.map((wanted) => ({ op: 'claim', claim: wanted }) as const))
  await driver.send(claims.slice(2).map(({ key, id }) => ({ op: 'release', key, id }) as const))
  proxy.log.length = 0
  const { keys } = await driver.list({})
  expect(keys.map(({ key }) => key)).toEqual(['key-0', 'key-1'])
  expect(proxy.log.filter(isRead)).toHaveLength(2)
})

test('an object that is damaged, or of a newer Leasehold, is refused for its key alone', async () => {
  const prefix = freshS3Prefix()
  const driver = await openS3(server, prefix)
  const put = (name: string, Body: string) =>
    server.client.putObject({ Bucket: server.bucket, Key: `${prefix}keys/${name}`, Body })
  await put('damaged', 'no JSON')
  await put('newer', JSON.stringify({ key: 'newer', version: 99, lastFence: 1, claims: [] }))
  const statuses = await driver.send(
    ['damaged', 'newer', 'whole'].map((key) => ({ op: 'claim', claim: claimOf(key) }) as const),
  )
  expect(statuses).toMatchObject([
    { state: 'unknown', error: { reason: 'corrupt' } },
    { state: 'unknown', error: { reason: 'foreign' } },
    { state: 'held' },
  ])
})

describe('the settings of a bucket that cost money are told', () => {
  const bucketWith = async (name: string, options: object = {}): Promise<string> => {
    await server.client.createBucket({ Bucket: name, ...options })
    return name
  }
  const warningsOf = async (bucket: string, client?: typeof server.client): Promise<string> => {
    const driver: LockDriver = unopenedS3(server, { bucket, ...(client !== undefined && { client }) })
    await driver.open()
    return (driver.warnings ?? []).join('\n')
  }
  const tidied = (days: number) => ({
    LifecycleConfiguration: {
      Rules: [{ ID: 'tidy', Status: 'Enabled' as const, Filter: { Prefix: '' }, Expiration: { Days: days } }],
    },
  })

  test('versions, an object lock, no lifecycle or one of a day', async () => {
    const plain = await bucketWith('plain')
    expect(await warningsOf(plain)).toMatch(/No lifecycle rule/)
    await server.client.putBucketLifecycleConfiguration({ Bucket: plain, ...tidied(1) })
    expect(await warningsOf(plain)).toMatch(/after one day/)
    await server.client.putBucketLifecycleConfiguration({ Bucket: plain, ...tidied(7) })
    expect(await warningsOf(plain)).toBe('')
    expect(await warningsOf(plain, server.client)).toBe('')
    await server.client.putBucketVersioning({ Bucket: plain, VersioningConfiguration: { Status: 'Enabled' } })
    expect(await warningsOf(plain)).toMatch(/keeps old versions/)
    expect(await warningsOf(plain, server.client)).toMatch(/keeps old versions/)
    const locked = await bucketWith('locked', { ObjectLockEnabledForBucket: true })
    expect(await warningsOf(locked)).toMatch(/object lock/)
  })

  test('by doctor, too', async () => {
    inEnvironment(credentialsForTests)
    const { leasehold, shown } = cliBench()
    expect(await leasehold('doctor', '--store', server.url(freshS3Prefix()))).toBe(0)
    const told = shown.output.split('\n').filter((line) => line.startsWith('WARN'))
    expect(told).toMatchObject([expect.stringContaining('No lifecycle rule')])
  })

  test('and that one may not ask for them is no obstacle', async () => {
    const proxy = await S3Proxy.start(server)
    proxy.decide = ({ path }) =>
      /versioning|lifecycle|object-lock/.test(path) ? { answer: 403, body: s3Fault('AccessDenied') } : undefined
    const driver = unopenedS3(server, {}, proxy)
    await driver.open()
    expect(driver.warnings).toEqual([])
  })
})

test('an object that cannot be read, such as one in an archive, is refused for its key alone', async () => {
  const { proxy, driver } = await behindProxy()
  proxy.decide = ({ method, path }) =>
    method === 'GET' && path.includes('archived') ? { answer: 403, body: s3Fault('InvalidObjectState') } : undefined
  const requests = ['archived', 'sound'].map((key) => ({ op: 'claim', claim: claimOf(key) }) as const)
  const [archived, sound] = await driver.send(requests)
  expect(archived).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'configuration' } })
  expect(sound).toMatchObject({ state: 'held' })
  await expect(claim(driver, claimOf('archived'))).rejects.toMatchObject({ code: 'UNAVAILABLE' })
})

test('an object that a lifecycle rule removed comes back with a higher fence', async () => {
  const prefix = freshS3Prefix()
  const driver = await openS3(server, prefix)
  const wanted = claimOf('a')
  const fence = fenceOf(await claim(driver, wanted))
  await release(driver, wanted)
  await server.removeAll(prefix)
  expect(fenceOf(await claim(driver, claimOf('a')))).toBeGreaterThan(fence)
})

test('an S3Client, which has no methods, is refused with what to use', () => {
  const client = { send: () => {} } as never
  expect(() => s3({ bucket: 'locks', client })).toThrow('new S3(')
})

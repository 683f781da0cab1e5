import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver, Request, ClaimStatus } from '../../src/core/contract/driver.ts'
import type { HttpOptions } from '../../src/drivers/http/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { quorum } from '../../src/drivers/quorum/driver.ts'
import { connect, createLocks, type LeaseholdError, type Locks } from '../../src/index.ts'
import { serve, type LeaseholdServer, type ServeOptions } from '../../src/server/index.ts'
import { around } from '../support/around.ts'
import { claim, claimOf, release, renew } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { overFetch, overNode } from '../support/transports.ts'
import { folderForTest } from '../support/test-folder.ts'
import { listen, closeServer } from '../support/loopback.ts'

describe.each([overNode, overFetch])('over $name', ({ http, closesIdle }) => {
  async function start(options: Partial<ServeOptions> = {}): Promise<LeaseholdServer> {
    const server = await serve({ ...(options.store === undefined && { driver: memory() }), port: 0, ...options })
    onTestFinished(() => server.close())
    return server
  }

  async function proxyTo({ url }: { readonly url: string }): Promise<TcpProxy> {
    const proxy = await TcpProxy.start({ port: Number(new URL(url).port) })
    onTestFinished(() => proxy.stop())
    return proxy
  }

  async function open(options: string | HttpOptions): Promise<LockDriver> {
    const driver = http(options)
    onTestFinished(() => driver.close())
    await driver.open()
    return driver
  }

  async function openLocks(url: string): Promise<Locks> {
    const locks = await createLocks({ driver: http(url) })
    onTestFinished(() => locks.close())
    return locks
  }

  const over = ({ port }: TcpProxy): string => `http://127.0.0.1:${port}`
  const key = 'default/named:orders/42'

  describe('a reply that is lost', () => {
    test('leaves the outcome unknown; released by id, nothing is left', async () => {
      const server = await start()
      const proxy = await proxyTo(server)
      const [near, far] = [await open(server.url), await open(over(proxy))]
      const wanted = claimOf(key)
      const cut = proxy.cutAfterRequest()
      expect(await claim(far, wanted)).toMatchObject({
        state: 'unknown',
        error: { code: 'UNAVAILABLE', reason: 'network' },
      })
      await cut
      expect((await near.list({ key })).keys[0]?.claims).toMatchObject([{ state: 'held' }])
      expect(await release(far, wanted)).toEqual({ state: 'absent', reason: 'released' })
      expect((await near.list({ key })).keys).toEqual([])
    })

    test('does not keep a caller from its lock, and leaves one claim', async () => {
      const server = await start()
      const proxy = await proxyTo(server)
      const locks = await openLocks(over(proxy))
      const near = await open(server.url)
      const cut = proxy.cutAfterRequest()
      const lease = await locks.acquire('orders/42', { ttl: '30s', wait: '30s' })
      await cut
      expect(lease.held).toBe(true)
      await eventually(async () => (await near.list({ key })).keys[0]?.claims.length === 1, 'one claim')
      await lease.release()
      expect((await near.list({ key })).keys).toEqual([])
    })

    test('is not waited for longer than was told', async () => {
      const server = await start()
      const proxy = await proxyTo(server)
      const driver = await open({ url: over(proxy), answerWithinMs: 2000 })
      proxy.dropReplies = true
      const wanted = claimOf(key)
      expect(await claim(driver, wanted)).toMatchObject({
        state: 'unknown',
        error: { message: expect.stringMatching(/2000 ms/) },
      })
      proxy.dropReplies = false
      expect(await release(driver, wanted)).toEqual({ state: 'absent', reason: 'released' })
    })
  })

  describe('a server that is started again', () => {
    test('in front of memory mints fences above those it forgot', async () => {
      const port = await freePort()
      const first = await start({ port })
      const driver = await open(first.url)
      const before = await claim(driver, claimOf(key))
      await first.close()
      await start({ port })
      // The first may be lost on a connection that the old server had closed.
      const after = await eventually(async () => held(await claim(driver, claimOf(key))), 'a grant')
      expect(after.fence).toBeGreaterThan(held(before)?.fence ?? Infinity)
    })

    test('in front of sqlite finds the leases of its clients, held or waiting', async () => {
      const directory = folderForTest('http')
      const store = `sqlite:${path.join(directory, 'locks.sqlite')}`
      const port = await freePort()
      const first = await start({ store, port })
      const holder = await openLocks(first.url)
      const waiter = await openLocks(first.url)
      const lease = await holder.acquire('orders/42', { ttl: '15s' })
      const waiting = waiter.acquire('orders/42', { ttl: '15s', retry: 'aggressive' })
      await eventually(async () => (await holder.inspect('orders/42'))?.waiters.length === 1, 'the waiter')
      await first.close()
      await start({ store, port })
      await eventually(
        () =>
          lease
            .renew()
            .then(() => true)
            .catch(() => false),
        'a renewal',
      )
      expect(lease.held).toBe(true)
      expect(await holder.inspect('orders/42')).toMatchObject({ holders: [{ fence: lease.fence }], waiters: [{}] })
      await lease.release()
      const next = await waiting
      expect(next.fence).toBeGreaterThan(lease.fence)
    })
  })

  describe('a stream that is cut', () => {
    test('costs a waiter its news, not its turn', async () => {
      const server = await start()
      const proxy = await proxyTo(server)
      const near = await openLocks(server.url)
      const far = await openLocks(over(proxy))
      const lease = await near.acquire('orders/42')
      const waiting = far.acquire('orders/42')
      await eventually(async () => (await near.inspect('orders/42'))?.waiters.length === 1, 'the waiter')
      proxy.refuse()
      await lease.release()
      proxy.restore()
      expect((await waiting).fence).toBeGreaterThan(lease.fence)
    })

    test('is not the only gap: what the store itself may have missed is passed on', async () => {
      const store = memory()
      const onGaps: (() => void)[] = []
      const listen: LockDriver['listen'] = (onNotification, onGap) => {
        if (onGap !== undefined) onGaps.push(onGap)
        return store.listen?.(onNotification, onGap) ?? { [Symbol.dispose]() {} }
      }
      const server = await start({ driver: around(store, { listen }) })
      const driver = await open(server.url)
      let gaps = 0
      driver.listen?.(
        () => {},
        () => (gaps += 1),
      )
      await claim(driver, claimOf(key))
      gaps = 0
      for (const gap of onGaps) gap()
      await eventually(() => gaps > 0, 'the gap')
    })

    test('is opened again, which is reported as a gap', async () => {
      const server = await start()
      const proxy = await proxyTo(server)
      const driver = await open(over(proxy))
      let gaps = 0
      driver.listen?.(
        () => {},
        () => (gaps += 1),
      )
      await claim(driver, claimOf(key))
      gaps = 0
      proxy.cut()
      await eventually(() => gaps > 0, 'the gap')
    })
  })

  test('of a server that is gone the holder stops before the store gives its lock away', async () => {
    const server = await start()
    const proxy = await proxyTo(server)
    const far = await openLocks(over(proxy))
    const near = await openLocks(server.url)
    const story: string[] = []
    const lease = await far.acquire('orders/42', { ttl: 3000 })
    lease.signal.addEventListener('abort', () => story.push('told to stop'))
    const next = near.acquire('orders/42').then((granted) => {
      story.push('given away')
      return granted
    })
    await eventually(async () => (await near.inspect('orders/42'))?.waiters.length === 1, 'the waiter')
    proxy.refuse()
    expect((await next).fence).toBeGreaterThan(lease.fence)
    expect(story).toEqual(['told to stop', 'given away'])
  })

  describe('nothing was carried out, and send rejects', () => {
    const requests: Request[] = [{ op: 'claim', claim: claimOf(key) }]

    test('when nobody listens', async () => {
      const server = await start()
      const driver = await open(server.url)
      await server.close()
      // What is sent over a connection that is about to be seen closed may have arrived, as far as anybody knows.
      const rejection = await eventually(
        () =>
          driver.send(requests).then(
            () => undefined,
            (error: unknown) => error,
          ),
        'a rejection',
      )
      expect(rejection).toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
      await expect(http('http://127.0.0.1:1').open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
    })

    test('when the server closes or has too much to do', async () => {
      const refused = await pretending(503, {
        code: 'UNAVAILABLE',
        message: 'Closing.',
        reason: 'draining',
        retryAfterMs: 5,
      })
      await expect(refused.send(requests)).rejects.toMatchObject({ reason: 'draining', retryAfterMs: 5 })
      const busy = await pretending(429, { code: 'UNAVAILABLE', message: 'Busy.', reason: 'busy' })
      await expect(busy.send(requests)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'busy' })
    })

    test('when it is sent elsewhere: redirects are not followed', async () => {
      const driver = await pretending(307, undefined, { location: 'http://example.com/' })
      await expect(driver.send(requests)).rejects.toMatchObject({
        message: expect.stringMatching(/redirects to "http:\/\/example/),
      })
    })
  })

  describe('the outcome is unknown', () => {
    test.each<[string, number, unknown]>([
      ['that something before the server failed', 502, undefined],
      ['503 that is not of the server', 503, undefined],
      ['that the server failed', 500, { error: { code: 'UNAVAILABLE', message: 'Failed.', reason: 'server' } }],
      ['no statuses', 200, {}],
      ['too few statuses', 200, { statuses: [] }],
      ['a status that is none', 200, { statuses: [{ state: 'held', fence: -1, ttlMs: 5 }] }],
      ['no JSON', 200, undefined],
    ])('when the answer is %s', async (_, status, value) => {
      const driver = await pretending(status, undefined, {}, value)
      expect(await claim(driver, claimOf(key))).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE' } })
    })
  })

  test('what is more than a server takes at once is sent in several calls', async () => {
    const server = await start({ limits: { bodyBytesMax: 5000, requestsPerCallMax: 7 } })
    const driver = await open(server.url)
    const claims = Array.from({ length: 40 }, (_, index) => claimOf(`default/named:${index}`, { id: `id-${index}` }))
    const statuses = await driver.send(claims.map((each) => ({ op: 'claim', claim: each })))
    expect(statuses.map(({ state }) => state)).toEqual(claims.map(() => 'held'))
    expect(await driver.send(claims.map(({ key: each, id }) => ({ op: 'release', key: each, id })))).toHaveLength(40)
  })

  test('a quorum of three servers holds locks, shows and verifies them, and does without one that has just started', async () => {
    let ageMs = 0
    const clock = { now: () => performance.now() + ageMs, wall: () => Date.now() }
    const servers = [await start({ driver: memory({ clock }) }), await start({ driver: memory({ clock }) })]
    const third = await start({ driver: memory() })
    ageMs = 120_000
    const locks = await createLocks({
      driver: quorum(
        [...servers, third].map(({ url }) => http(url)),
        { answerWithin: 5000 },
      ),
      allowForce: true,
    })
    onTestFinished(() => locks.close())
    const lease = await locks.acquire('orders/42', { ttl: '30s' })
    expect(await locks.tryAcquire('orders/42')).toBeNull()
    expect(await locks.inspect('orders/42')).toMatchObject({ holders: [{ fence: lease.fence }] })
    expect(await locks.verify(lease.toJSON(), 'orders/42')).toMatchObject({ fence: lease.fence })
    await third.close()
    await lease.renew()
    expect(lease.held).toBe(true)
    await servers[0]?.close()
    await expect(locks.acquire('another', { wait: '200ms', ttl: '1s' })).rejects.toMatchObject({
      code: expect.stringMatching(/UNAVAILABLE|TIMEOUT/),
    })
  })

  test('the age of the data passes over two servers, and begins anew with a server that takes its store with it', async () => {
    let now = 0
    const clock = { now: () => now, wall: () => 1_700_000_000_000 + now }
    const inner = await start({ driver: memory({ clock }) })
    const outer = await start({ driver: http(inner.url) })
    const driver = await open(outer.url)
    now = 90_000
    expect(await driver.dataAgeMs?.()).toBe(90_000)
    const { port } = new URL(inner.url)
    await inner.close()
    await start({ driver: memory({ clock }), port: Number(port) })
    now += 5
    expect(await driver.dataAgeMs?.()).toBe(5)
  })

  test('a server may stand before another, also if the store behind does not say for how long it is up', async () => {
    const driver: LockDriver = memory()
    Object.defineProperty(driver, 'dataAgeMs', { value: undefined })
    const inner = await start({ driver })
    const outer = await start({ driver: http(inner.url) })
    const locks = await openLocks(outer.url)
    const lease = await locks.acquire('orders/42')
    const waiting = locks.acquire('orders/42')
    expect(await locks.verify(lease.toJSON(), 'orders/42')).toMatchObject({ fence: lease.fence })
    await lease.release()
    expect((await waiting).fence).toBeGreaterThan(lease.fence)
    await expect((await open(outer.url)).dataAgeMs?.()).rejects.toMatchObject({ code: 'UNSUPPORTED' })
  })

  describe('the URL of a server', () => {
    test('may have a token, a port and a path before the server’s own', async () => {
      const { url } = await start()
      const target = new URL(url)
      const seen: { authorization: string | undefined; url: string | undefined }[] = []
      const base = await listening((request, response) => {
        seen.push({ authorization: request.headers.authorization, url: request.url })
        void passOn(`http://${target.host}${(request.url ?? '').replace('/locks', '')}`, response)
      })
      const driver = http(`http://my%2Dtoken@127.0.0.1:${base}/locks/`)
      onTestFinished(() => driver.close())
      await driver.list({ key })
      expect(seen).toEqual([{ authorization: 'Bearer my-token', url: `/locks/v1/keys?key=${encodeURIComponent(key)}` }])
    })

    test('takes the token of LEASEHOLD_TOKEN where it has none', async () => {
      const token = 'from-the-environment'
      const { url } = await start({ tokens: [{ name: 'a', token, namespaces: '*', rights: ['lock', 'read'] }] })
      process.env['LEASEHOLD_TOKEN'] = token
      const locks = await connect(url).finally(() => delete process.env['LEASEHOLD_TOKEN'])
      onTestFinished(() => locks.close())
      await (await locks.acquire('orders/42')).release()
    })

    test.each(['of-a-file\n', 'in two', 'tök€n'])(
      'is refused with %j in LEASEHOLD_TOKEN, which is not shown',
      (token) => {
        process.env['LEASEHOLD_TOKEN'] = token
        onTestFinished(() => void delete process.env['LEASEHOLD_TOKEN'])
        const expected = { code: 'INVALID', message: expect.not.stringContaining(token.trim()) }
        expect(() => http('http://127.0.0.1:1')).toThrow(expect.objectContaining(expected))
      },
    )

    test.each([
      'http://',
      'ftp://a',
      'http://user:password@host',
      'http://host?x=1',
      'http://host#x',
      'http://%zz@host',
    ])('%s makes no sense', async (url) => {
      expect(() => http(url)).toThrow(expect.objectContaining({ code: 'INVALID' }))
    })
  })

  test('a closed driver leaves no connection behind', async () => {
    const server = await start()
    const proxy = await proxyTo(server)
    const driver = await open(over(proxy))
    const wanted = claimOf(key)
    await claim(driver, wanted)
    await renew(driver, wanted)
    // One of them is the stream's.
    const idle = closesIdle ? 0 : proxy.connections - 1
    expect(proxy.connections).toBeGreaterThan(idle)
    await driver.close()
    await eventually(() => proxy.connections <= idle, 'the end of the connections')
  })

  test('what is under way when a driver is closed is not asked again over another connection', async () => {
    const driver = memory()
    const list = driver.list.bind(driver)
    const asked: (() => void)[] = []
    driver.list = async (query) => {
      if (query.key === 'slow') await new Promise<void>((resolve) => asked.push(resolve))
      return list(query)
    }
    const server = await start({ driver })
    const proxy = await proxyTo(server)
    const client = await open(over(proxy))
    await client.list({ key: 'quick' })
    const listing = client.list({ key: 'slow' })
    listing.catch(() => {})
    await eventually(() => asked.length === 1, 'the question')
    const idle = closesIdle ? 0 : proxy.connections - 2
    await client.close()
    await expect(listing).rejects.toMatchObject({ code: 'CLOSED' })
    await eventually(() => proxy.connections <= idle, 'the end of the connections')
    expect(asked.length).toBe(1)
    for (const answer of asked) answer()
  })

  test('what still waits for a connection when a driver is closed is never sent', async () => {
    const driver = memory()
    let asked = 0
    // Never answers: all connections are in use.
    driver.send = (requests) => new Promise(() => (asked += requests.length))
    const server = await start({ driver, limits: { drainWithinMs: 1 } })
    const client = await open({ url: server.url, answerWithinMs: 600_000 })
    const outcomes = Array.from({ length: 100 }, (_, index) =>
      client.send([{ op: 'release', key: `default/named:${index}`, id: 'mine' }]).then(
        ([status]) => status?.state,
        (error: LeaseholdError) => error.code,
      ),
    )
    await eventually(() => asked === 64, 'the calls')
    await client.close()
    const settled = await Promise.all(outcomes)
    expect(settled.filter((outcome) => outcome === 'unknown')).toHaveLength(64)
    expect(settled.filter((outcome) => outcome === 'CLOSED')).toHaveLength(36)
    expect(asked).toBe(64)
  })

  test('a server that takes less than the one before it is asked what it takes', async () => {
    const port = await freePort()
    const first = await start({ port })
    const driver = await open(first.url)
    await first.close()
    await start({ port, limits: { requestsPerCallMax: 2 } })
    const claims = Array.from({ length: 5 }, (_, index) => claimOf(`default/named:${index}`))
    await eventually(async () => {
      // The first may be lost on a connection that the old server had closed, the next is refused.
      const statuses = await driver.send(claims.map((one) => ({ op: 'claim', claim: one }))).catch(() => [])
      return statuses.length > 0 && statuses.every(({ state }) => state === 'held')
    }, 'grants')
  })

  test('a stream that is cut as soon as it opens is opened less and less often', async () => {
    const openedAt: number[] = []
    const real = await start()
    const port = await listening((request, response) => {
      if (request.url === '/v1/notifications') {
        openedAt.push(performance.now())
        response.writeHead(200, { 'content-type': 'text/event-stream' }).end(':\n\n')
        return
      }
      void fetch(`${real.url}${request.url}`).then(async (reply) => response.end(await reply.text()))
    })
    await open(`http://127.0.0.1:${port}`)
    await eventually(() => openedAt.length >= 4, 'four streams')
    const [first = 0, , , fourth = 0] = openedAt
    // 100, 200 and 400 ms, each shorter by a fifth at most.
    expect(fourth - first).toBeGreaterThan(550)
  })

  test.each(['stalls', 'is reset'])(
    'an answer that %s in its midst is asked for once more at most, and fails once',
    async (fault) => {
      let asked = 0
      const port = await listening((request, response) => {
        asked += 1
        if (asked === 1) return void response.end('{ "now": 1, "keys": [] }')
        response.writeHead(200, { 'content-length': '1000' }).write('{ "now": ')
        if (fault === 'is reset') setTimeout(() => request.socket.resetAndDestroy(), 20)
      })
      const driver = http({ url: `http://127.0.0.1:${port}`, answerWithinMs: 200 })
      onTestFinished(() => driver.close())
      // Its connection is kept, and used by the next.
      await driver.list({})
      await pause(20)
      await expect(driver.list({})).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
      // A rejection that nobody handles comes by then, and fails the run.
      await pause(300)
      expect(asked).toBeLessThanOrEqual(fault === 'stalls' ? 2 : 3)
    },
  )

  function held(status: ClaimStatus): Extract<ClaimStatus, { state: 'held' }> | undefined {
    return status.state === 'held' ? status : undefined
  }

  async function listening(handler: RequestListener): Promise<number> {
    const server = createServer(handler)
    const port = await listen(server)
    onTestFinished(() => closeServer(server))
    return port
  }

  /** A driver on a server that is a real one until requests come: those it answers like this. */
  async function pretending(
    status: number,
    error: object | undefined,
    headers: Record<string, string> = {},
    value: unknown = error && { error },
  ): Promise<LockDriver> {
    const { url } = await start()
    const port = await listening((request, response) => {
      if (request.url === '/v1/requests') {
        request.resume()
        response.writeHead(status, headers)
        response.end(value === undefined ? 'what is this' : JSON.stringify(value))
      } else if (request.url === '/v1/store') void passOn(`${url}/v1/store`, response)
      else response.writeHead(404).end()
    })
    return open(`http://127.0.0.1:${port}`)
  }

  async function passOn(url: string, response: ServerResponse): Promise<void> {
    const answer = await fetch(url)
    response.writeHead(answer.status, { 'content-type': 'application/json' })
    response.end(await answer.text())
  }
})

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Claim, LockDriver, ClaimStatus, Notification } from '../../src/core/contract/driver.ts'
import { hashTagOf } from '../../src/drivers/redis/hash-tags.ts'
import { redis, type NodeRedisClient, type RedisOptions } from '../../src/drivers/redis/driver.ts'
import { redisGuard } from '../../src/guards/index.ts'
import { connect, createLocks } from '../../src/index.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { RedisServer, type RedisServerOptions } from '../support/redis-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { fenceOf, untilAnswered } from '../support/claims.ts'
import { listen } from '../support/loopback.ts'

async function startServer(options: RedisServerOptions = {}): Promise<RedisServer> {
  const server = await RedisServer.start(options)
  onTestFinished(() => server.stop())
  return server
}

async function startProxy(server: RedisServer): Promise<TcpProxy> {
  const proxy = await TcpProxy.start({ port: server.port })
  onTestFinished(() => proxy.stop())
  return proxy
}

async function openDriver(options: string | RedisOptions): Promise<LockDriver> {
  const driver = redis(options)
  onTestFinished(() => driver.close())
  await driver.open()
  return driver
}

const key = 'default/named:orders/42'

function claimOf(id: string, changes: Partial<Claim> = {}): Claim {
  const runner = { id: `runner-${id}`, incarnation: '1', host: 'here', pid: 1, client: 'test' }
  return { id, key, mode: 'exclusive', priority: 0, wait: true, ttlMs: 10_000, graceMs: 0, runner, ...changes }
}

async function claim(driver: LockDriver, id: string, changes: Partial<Claim> = {}): Promise<ClaimStatus> {
  const [status] = await driver.send([{ op: 'claim', claim: claimOf(id, changes) }])
  return status ?? { state: 'unknown', error: 'no answer' }
}

async function renew(driver: LockDriver, id: string, ttlMs = 10_000): Promise<ClaimStatus> {
  const [status] = await driver.send([{ op: 'renew', key, id, ttlMs }])
  return status ?? { state: 'unknown', error: 'no answer' }
}

async function release(driver: LockDriver, id: string): Promise<ClaimStatus> {
  const [status] = await driver.send([{ op: 'release', key, id }])
  return status ?? { state: 'unknown', error: 'no answer' }
}

/** All that a driver reports without being asked, as it comes: `ID STATE`, `ID poll` or `gap`. */
function notificationsOf(driver: LockDriver): readonly string[] {
  const received: string[] = []
  driver.listen?.(
    (_key, id, notification) => received.push(`${id} ${notification === 'poll' ? notification : notification.state}`),
    () => received.push('gap'),
  )
  return received
}

describe('a Redis that is killed', () => {
  test('and keeps its data still has every lock, and the same fences', async () => {
    const server = await startServer({ settings: { appendonly: 'yes', appendfsync: 'always' } })
    const driver = await openDriver(server.url)
    const fence = fenceOf(await claim(driver, 'holder'))
    await claim(driver, 'waiter')
    await server.kill()
    await server.start()
    expect(fenceOf(await untilAnswered(() => renew(driver, 'holder')))).toBe(fence)
    expect(await claim(driver, 'other', { wait: false })).toMatchObject({ state: 'absent', reason: 'refused' })
    await release(driver, 'holder')
    expect(fenceOf(await renew(driver, 'waiter'))).toBeGreaterThan(fence)
  })

  test('and comes back empty has lost the lock, says so, and mints higher fences', async () => {
    const server = await startServer()
    const driver = await openDriver(server.url)
    const fence = fenceOf(await claim(driver, 'holder'))
    await server.kill()
    await server.start()
    expect(await untilAnswered(() => renew(driver, 'holder'))).toEqual({ state: 'absent', reason: 'unknown' })
    expect(fenceOf(await claim(driver, 'other'))).toBeGreaterThan(fence)
  })

  test('and comes back with an old snapshot mints no fence twice', async () => {
    const server = await startServer()
    const driver = await openDriver(server.url)
    await claim(driver, 'first')
    await server.cli('SAVE')
    await release(driver, 'first')
    const fences = [fenceOf(await claim(driver, 'second'))]
    await release(driver, 'second')
    fences.push(fenceOf(await claim(driver, 'third')))
    await server.kill()
    await server.start()
    // The snapshot knows of the first claim alone.
    expect(await untilAnswered(() => renew(driver, 'third'))).toMatchObject({ state: 'absent' })
    await release(driver, 'first')
    expect(fenceOf(await claim(driver, 'fourth'))).toBeGreaterThan(Math.max(...fences))
  })
})

describe('a Redis that stands still', () => {
  test('past the ttl: the holder stops first, and the next one has a higher fence', async () => {
    const server = await startServer()
    const locks = await createLocks({ driver: redis(server.url) })
    onTestFinished(() => locks.close())
    const lease = await locks.acquire('orders/42', { ttl: 1000 })
    server.freeze()
    const frozenAt = performance.now()
    onTestFinished(() => server.thaw())
    await eventually(() => lease.signal.aborted, 'The end of the lease')
    await pause(Math.max(0, 1100 - (performance.now() - frozenAt)))
    server.thaw()
    await using next = await locks.acquire('orders/42', { ttl: 10_000, wait: 30_000 })
    expect(next.fence).toBeGreaterThan(lease.fence)
  })

  test('does not hold up a renewal beyond a third of its ttl', async () => {
    const server = await startServer()
    const driver = await openDriver({ url: server.url, commandTimeoutMs: 60_000 })
    await claim(driver, 'holder', { ttlMs: 60_000 })
    server.freeze()
    onTestFinished(() => server.thaw())
    const startedAt = performance.now()
    const status = await renew(driver, 'holder', 900)
    expect(status).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'network' } })
    expect(performance.now() - startedAt).toBeLessThan(20_000)
    server.thaw()
    expect(await untilAnswered(() => renew(driver, 'holder'))).toMatchObject({ state: 'held' })
  })
})

describe('a connection that breaks', () => {
  test('after a claim was carried out leaves it unknown, and asking again finds the same grant', async () => {
    const server = await startServer()
    const proxy = await startProxy(server)
    const driver = await openDriver(`redis://127.0.0.1:${proxy.port}`)
    const direct = await openDriver(server.url)
    await release(driver, 'warm')
    const cut = proxy.cutAfterRequest()
    const [status] = await Promise.all([claim(driver, 'holder'), cut])
    expect(status).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'network' } })
    expect(await claim(direct, 'other', { wait: false })).toMatchObject({ state: 'absent', reason: 'refused' })
    const again = await untilAnswered(() => claim(driver, 'holder'))
    expect(fenceOf(again)).toBe(fenceOf(await claim(direct, 'holder')))
  })

  test('after a release was carried out does no harm to the next holder when it is sent again', async () => {
    const server = await startServer()
    const proxy = await startProxy(server)
    const driver = await openDriver(`redis://127.0.0.1:${proxy.port}`)
    const direct = await openDriver(server.url)
    await claim(driver, 'holder')
    const cut = proxy.cutAfterRequest()
    await Promise.all([release(driver, 'holder'), cut])
    const fence = fenceOf(await claim(direct, 'next'))
    expect(await untilAnswered(() => release(driver, 'holder'))).toMatchObject({ state: 'absent' })
    expect(fenceOf(await renew(direct, 'next'))).toBe(fence)
  })

  test('is dialled again, and what was not sent is rejected at once', async () => {
    const server = await startServer()
    const proxy = await startProxy(server)
    const driver = await openDriver({ url: `redis://127.0.0.1:${proxy.port}`, commandTimeoutMs: 60_000 })
    await claim(driver, 'holder', { ttlMs: 60_000 })
    proxy.refuse()
    // What was sent before the driver saw the end of its connection is unknown, and is not rejected.
    const rejected = await eventually(
      () =>
        renew(driver, 'holder', 60_000).then(
          () => undefined,
          (error: unknown) => ({ error }),
        ),
      'A rejection',
      10_000,
    )
    expect(rejected.error).toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
    proxy.restore()
    expect(await untilAnswered(() => renew(driver, 'holder'))).toMatchObject({ state: 'held' })
  })

  test('half-open is given up, and a new one is dialled', async () => {
    const server = await startServer()
    const proxy = await startProxy(server)
    const driver = await openDriver({ url: `redis://127.0.0.1:${proxy.port}`, commandTimeoutMs: 1000 })
    await untilAnswered(() => claim(driver, 'holder', { ttlMs: 60_000 }))
    proxy.silence()
    expect(await renew(driver, 'holder')).toMatchObject({ state: 'unknown', error: { reason: 'network' } })
    expect(await untilAnswered(() => renew(driver, 'holder'))).toMatchObject({ state: 'held' })
  })
})

describe('scripts', () => {
  test('are sent again as often as somebody flushes them', async () => {
    const server = await startServer()
    const driver = await openDriver(server.url)
    const client = new Redis(server.port)
    onTestFinished(() => client.disconnect())
    const turns = { over: false }
    const flushing = (async () => {
      while (!turns.over) await client.script('FLUSH')
    })()
    try {
      let last = 0
      for (let turn = 0; turn < 300; turn += 1) {
        const fence = fenceOf(await claim(driver, `turn-${turn}`))
        expect(fence).toBeGreaterThan(last)
        last = fence
        expect(await release(driver, `turn-${turn}`)).toEqual({ state: 'absent', reason: 'released' })
      }
    } finally {
      turns.over = true
      await flushing
    }
  })
})

describe('a subscription that is lost', () => {
  const ways: readonly (readonly [string, (server: RedisServer) => RedisOptions])[] = [
    ['with the connection of a URL', ({ url }) => ({ url })],
    ['beside a client of ioredis', (server) => ({ client: ioredisClient(server) })],
    ['beside a client of node-redis', (server) => ({ client: nodeRedisClient(server) })],
  ]

  function ioredisClient({ port }: RedisServer): Redis {
    const client = new Redis(port)
    onTestFinished(() => client.disconnect())
    return client
  }

  function nodeRedisClient({ url }: RedisServer): NodeRedisClient {
    const client = createClient({ url }).on('error', () => {})
    onTestFinished(() => client.destroy())
    return client
  }

  test.each(ways)('%s costs only time: a gap is reported, as a grant may have been lost', async (_, optionsFor) => {
    const server = await startServer()
    const [one, two] = [await openDriver(optionsFor(server)), await openDriver(optionsFor(server))]
    const received = notificationsOf(two)
    await claim(one, 'holder')
    await claim(two, 'waiter')
    expect(Number(await server.cli('CLIENT', 'KILL', 'TYPE', 'pubsub'))).toBe(2)
    await untilAnswered(() => release(one, 'holder'))
    await eventually(() => received.length > 0, 'The notification')
    expect(received[0]).toMatch(/^(gap|waiter held)$/)
    expect(await untilAnswered(() => renew(two, 'waiter'))).toMatchObject({ state: 'held' })
  })

  test.each(ways)('%s is made anew: later grants are pushed again', async (_, optionsFor) => {
    const server = await startServer()
    const [one, two] = [await openDriver(optionsFor(server)), await openDriver(optionsFor(server))]
    await server.cli('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await untilAnswered(() => claim(one, 'holder'))
    await untilAnswered(() => claim(two, 'waiter'))
    await eventually(async () => (await server.cli('PUBSUB', 'CHANNELS')).includes('\n'), 'The subscriptions')
    const pushed = new Promise<Notification>((resolve) => {
      two.listen?.((_key, _id, notification) => notification !== 'poll' && resolve(notification))
    })
    await release(one, 'holder')
    expect(await pushed).toMatchObject({ state: 'held' })
  })

  test('with a reply that never came reports a gap when there is a connection again', async () => {
    const server = await startServer()
    const proxy = await startProxy(server)
    const driver = await openDriver(`redis://127.0.0.1:${proxy.port}`)
    const received = notificationsOf(driver)
    await claim(driver, 'holder')
    await claim(driver, 'waiter')
    await Promise.all([release(driver, 'holder'), proxy.cutAfterRequest()])
    await eventually(() => received.length > 0, 'The notification')
    expect(received).toEqual(['gap'])
    expect(await untilAnswered(() => renew(driver, 'waiter'))).toMatchObject({ state: 'held' })
  })
})

describe('two claims of one client', () => {
  test('hand over in the reply to the release, before that is answered, and publish nothing', async () => {
    const server = await startServer()
    const driver = await openDriver(server.url)
    const received = notificationsOf(driver)
    await claim(driver, 'holder')
    for (const id of ['first', 'second']) await claim(driver, id)
    await release(driver, 'holder')
    expect(received).toEqual(['first held'])
    // The last of those who wait goes by the rule, and in a batch.
    await driver.send(['first', 'other'].map((id) => ({ op: 'release', key, id })))
    expect(received).toEqual(['first held', 'second held'])
    expect(await server.cli('INFO', 'commandstats')).not.toContain('cmdstat_publish')
  })
})

describe('a Redis that refuses', () => {
  test('a wrong password is told as auth, at opening', async () => {
    const server = await startServer({ settings: { requirepass: 'right' } })
    const wrong = redis(`redis://:wrong@127.0.0.1:${server.port}`)
    onTestFinished(() => wrong.close())
    await expect(wrong.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'auth' })
    const none = redis(server.url)
    onTestFinished(() => none.close())
    await expect(none.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'auth' })
    const right = await openDriver(`redis://:right@127.0.0.1:${server.port}`)
    expect(await claim(right, 'holder')).toMatchObject({ state: 'held' })
  })

  test('a full memory is told as full, releases go through, and locks come back with the room', async () => {
    const server = await startServer({ settings: { 'maxmemory-policy': 'noeviction' } })
    const driver = await openDriver(server.url)
    const fence = fenceOf(await claim(driver, 'holder'))
    await server.cli('CONFIG', 'SET', 'maxmemory', '1')
    const full = { state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'full' } }
    expect(await claim(driver, 'other', { key: 'default/named:else' })).toMatchObject(full)
    expect(await renew(driver, 'holder')).toMatchObject(full)
    expect(await release(driver, 'holder')).toEqual({ state: 'absent', reason: 'released' })
    await server.cli('CONFIG', 'SET', 'maxmemory', '0')
    expect(fenceOf(await claim(driver, 'next'))).toBeGreaterThan(fence)
  })

  test('a release that a full memory refuses has changed nothing', async () => {
    const server = await startServer({ settings: { 'maxmemory-policy': 'noeviction' } })
    const driver = await openDriver(server.url)
    const fence = fenceOf(await claim(driver, 'holder'))
    await claim(driver, 'waiter')
    await server.cli('CONFIG', 'SET', 'maxmemory', '1')
    expect(await release(driver, 'holder')).toMatchObject({ state: 'unknown', error: { reason: 'full' } })
    await server.cli('CONFIG', 'SET', 'maxmemory', '0')
    expect(fenceOf(await renew(driver, 'holder'))).toBe(fence)
    await release(driver, 'holder')
    expect(await renew(driver, 'waiter')).toMatchObject({ state: 'held' })
  })

  test('a fence counter that has run out is told as fence, and is not set back by that', async () => {
    const server = await startServer()
    const driver = await openDriver(server.url)
    const counter = `leasehold:{${hashTagOf(key)}}fence`
    await server.cli('SET', counter, String(Number.MAX_SAFE_INTEGER))
    const ranOut = { state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'fence' } }
    expect(await claim(driver, 'alone')).toMatchObject(ranOut)
    const both = ['one', 'two'].map((id) => ({ op: 'claim' as const, claim: claimOf(id) }))
    expect(await driver.send(both)).toMatchObject([ranOut, ranOut])
    expect(await server.cli('GET', counter)).toBe(String(Number.MAX_SAFE_INTEGER))
  })

  test('a script that fails under a clock that is behind does not set the fence counter back', async () => {
    const server = await startServer()
    const driver = await openDriver(server.url)
    const tag = `leasehold:{${hashTagOf(key)}}`
    const ahead = String((Date.now() + 3_600_000) * 1000)
    await server.cli('SET', `${tag}fence`, ahead)
    await server.cli('RPUSH', `${tag}k:${key}`, 'somebody else’s')
    expect(await claim(driver, 'alone')).toMatchObject({ state: 'unknown', error: { reason: 'foreign' } })
    expect(await server.cli('GET', `${tag}fence`)).toBe(ahead)
    const both = ['one', 'two'].map((id) => ({ op: 'claim' as const, claim: claimOf(id) }))
    expect(await driver.send(both)).toMatchObject([{ state: 'unknown' }, { state: 'unknown' }])
    expect(await server.cli('GET', `${tag}fence`)).toBe(ahead)
    await server.cli('DEL', `${tag}k:${key}`)
    expect(fenceOf(await claim(driver, 'holder'))).toBe(Number(ahead) + 1)
  })

  test('a server that is no Redis is told as such', async () => {
    const server = createServer((_request, response) => response.end('welcome'))
    await listen(server, await freePort())
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    await expect(openDriver(`redis://127.0.0.1:${port}`)).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining('no Redis server') as string,
    })
  })

  test('a replica is told as read-only', async () => {
    const primary = await startServer()
    const replica = await startServer()
    await replica.cli('REPLICAOF', '127.0.0.1', String(primary.port))
    const driver = await openDriver(replica.url)
    const status = await untilReason(() => claim(driver, 'holder'), 'read-only')
    expect(status).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'read-only' } })
  })
})

/** A replica that has not heard of its primary yet says so first. */
function untilReason(ask: () => Promise<ClaimStatus>, reason: string): Promise<ClaimStatus> {
  return eventually(async () => {
    const status = await ask().catch((error: unknown): ClaimStatus => ({ state: 'unknown', error }))
    const told = status.state === 'unknown' ? (status.error as { reason?: string }).reason : undefined
    return told === reason && status
  }, reason)
}

describe('a primary that is made a replica and a primary again', () => {
  test.each(['yes', 'no'])('answers in time and mints no fence twice (serves stale data: %s)', async (servesStale) => {
    const server = await startServer({ settings: { 'replica-serve-stale-data': servesStale } })
    const driver = await openDriver({ url: server.url, commandTimeoutMs: 5000 })
    const keys = Array.from({ length: 40 }, (_, index) => `default/named:${index}`).toSorted()
    const last = new Map<string, number>()
    const seen = { held: 0, refused: 0 }
    const turns = { over: false }

    async function batchOf(turn: number): Promise<void> {
      const claims = keys.map((each) => claimOf(`${turn}-${each}`, { key: each, ttlMs: 1000 }))
      const statuses = await driver.send(claims.map((one) => ({ op: 'claim', claim: one }))).catch(() => [])
      for (const [index, status] of statuses.entries()) {
        const each = keys[index] as string
        if (status.state === 'unknown') seen.refused += 1
        if (status.state !== 'held') continue
        expect(status.fence).toBeGreaterThan(last.get(each) ?? 0)
        last.set(each, status.fence)
        seen.held += 1
      }
      await driver.send(claims.map((one) => ({ op: 'release', key: one.key, id: one.id }))).catch(() => [])
    }

    const working = (async () => {
      for (let turn = 0; !turns.over; turn += 1) {
        await batchOf(turn)
        // What was not sent is rejected at once: nothing else would get its turn.
        await pause(1)
      }
    })()
    // Nobody is there: its own data stays as it is.
    const nobody = String(await freePort())
    for (let round = 0; round < 4; round += 1) {
      const { held, refused } = { ...seen }
      await eventually(() => seen.held > held, 'Grants')
      await server.cli('REPLICAOF', '127.0.0.1', nobody)
      await eventually(() => seen.refused > refused, 'A refusal')
      await server.cli('REPLICAOF', 'NO', 'ONE')
    }
    turns.over = true
    await working
    expect(await untilAnswered(() => claim(driver, 'after', { key: 'default/named:after' }))).toMatchObject({
      state: 'held',
    })
  })
})

describe('a failover to a replica that lags behind', () => {
  test('loses the lock, as Redis replication may; the fence tells the two holders apart', async () => {
    const primary = await startServer({ settings: { 'repl-diskless-sync-delay': '0' } })
    const replica = await startServer()
    const proxy = await startProxy(primary)
    await replica.cli('REPLICAOF', '127.0.0.1', String(proxy.port))
    const before = await openDriver(primary.url)
    await eventually(
      async () => (await replica.cli('INFO', 'replication')).includes('master_link_status:up'),
      'The replica',
    )
    // Nothing reaches the replica any more, and the primary does not wait for it.
    proxy.refuse()
    const lost = fenceOf(await claim(before, 'holder'))
    await primary.kill()
    await replica.cli('REPLICAOF', 'NO', 'ONE')
    const after = await openDriver(replica.url)

    // The lock was granted again while its first holder still believes in it: no replicated Redis can prevent that.
    const fence = fenceOf(await claim(after, 'other'))

    expect(fence).toBeGreaterThan(lost)
    const client = new Redis(replica.port)
    onTestFinished(() => client.disconnect())
    const guard = redisGuard(client)
    await guard.set('total', 'by the other', fence)
    await expect(guard.set('total', 'by the first holder', lost)).rejects.toMatchObject({ code: 'LOST' })
    expect(await client.get('total')).toBe('by the other')
  })
})

describe('a closed driver', () => {
  test('leaves no connection of its own open, and the client it was given as it is', async () => {
    const server = await startServer()
    const client = new Redis(server.port)
    onTestFinished(() => client.disconnect())
    await client.ping()
    const given = await openDriver({ client })
    const own = await openDriver(server.url)
    await Promise.all([claim(given, 'holder'), claim(own, 'waiter')])
    await Promise.all([given.close(), own.close()])
    const connections = async (): Promise<number> => (await server.cli('CLIENT', 'LIST')).split('\n').length
    // The given client, and redis-cli itself.
    await eventually(async () => (await connections()) === 2, 'The end of the others')
    expect(await client.ping()).toBe('PONG')
  })

  test('that was closed while it opened is closed', async () => {
    const server = await startServer()
    const driver = redis(server.url)
    const opening = driver.open().catch((error: unknown) => error)
    await driver.close()
    expect(await opening).toMatchObject({ code: 'CLOSED' })
    await eventually(async () => (await server.cli('CLIENT', 'LIST')).split('\n').length === 1, 'Its end')
  })
})

describe('ways in', () => {
  test('a unix socket, a database and a prefix each keep locks apart or together', async () => {
    const server = await startServer()
    const tcp = await openDriver(server.url)
    const socket = await openDriver(`redis+unix://${server.socketPath}`)
    const database = await openDriver(`${server.url}/3`)
    const prefixed = await openDriver({ url: server.url, prefix: 'billing:' })
    expect(await claim(tcp, 'one')).toMatchObject({ state: 'held' })
    expect(await claim(socket, 'two', { wait: false })).toMatchObject({ state: 'absent', reason: 'refused' })
    expect(await claim(database, 'three')).toMatchObject({ state: 'held' })
    expect(await claim(prefixed, 'four')).toMatchObject({ state: 'held' })
    expect((await server.cli('KEYS', 'billing:*')).split('\n')).toHaveLength(2)
  })

  test('connect takes the URL', async () => {
    const server = await startServer()
    await using locks = await connect(server.url, { namespace: 'billing' })
    const lease = await locks.acquire('invoice/42')
    expect(await locks.tryAcquire('invoice/42')).toBeNull()
    expect(await lease.release()).toBeTruthy()
  })

  test('a client with a keyPrefix is refused', async () => {
    const client = new Redis({ lazyConnect: true, keyPrefix: 'mine:' })
    await expect(redis(client).open()).rejects.toMatchObject({ code: 'INVALID' })
  })
})

describe('what stays behind', () => {
  test('is nothing but the fence counters, one ttl after an unclean end', async () => {
    const server = await startServer()
    const driver = await openDriver(server.url)
    await claim(driver, 'holder', { ttlMs: 3000, graceMs: 50 })
    for (let waiter = 0; waiter < 5; waiter += 1) await claim(driver, `waiter-${waiter}`, { ttlMs: 3000 })
    await claim(driver, 'plain', { key: 'default/named:else', ttlMs: 3000 })
    expect((await names(server)).length).toBe(6)
    await eventually(async () => (await names(server)).every((name) => name.endsWith('fence')), 'The end of all')
  })

  test('of thousands of names used once is one counter a hash tag', async () => {
    const server = await startServer()
    const driver = await openDriver(server.url)
    const claims = Array.from({ length: 2500 }, (_, index) => claimOf(`claim-${index}`, { key: `once/${index}` }))
    await driver.send(claims.map((one) => ({ op: 'claim', claim: one })))
    await driver.send(claims.map((one) => ({ op: 'release', key: one.key, id: one.id })))
    expect((await names(server)).length).toBeLessThanOrEqual(64)
  })
})

async function names(server: RedisServer): Promise<string[]> {
  return (await server.cli('KEYS', '*')).split('\n').filter((name) => name !== '')
}

describe('a long queue', () => {
  test('of a thousand is not read for one release', async () => {
    const server = await startServer()
    const driver = await openDriver(server.url)
    await claim(driver, 'holder', { ttlMs: 60_000 })
    const waiters = Array.from({ length: 1000 }, (_, index) => claimOf(`waiter-${index}`, { ttlMs: 60_000 }))
    const statuses = await driver.send(waiters.map((one) => ({ op: 'claim', claim: one })))
    expect(statuses.at(-1)).toMatchObject({ state: 'waiting', ahead: 999 })
    await server.cli('CONFIG', 'RESETSTAT')
    await release(driver, 'holder')
    expect(await renew(driver, 'waiter-0')).toMatchObject({ state: 'held' })
    const statistics = await server.cli('INFO', 'commandstats')
    expect(statistics).toContain('cmdstat_hget:calls=1,')
    expect(statistics).not.toMatch(/cmdstat_(hgetall|hmget)/)
  })
})

describe('a driver that is closed while it dials again', () => {
  test('leaves nobody with an error that no one looks after', async () => {
    const server = await startServer()
    const unhandled: unknown[] = []
    const note = (error: unknown): void => void unhandled.push(error)
    process.on('unhandledRejection', note)
    onTestFinished(() => void process.off('unhandledRejection', note))
    // Slow enough for some turn to close just when the subscription has been asked for again.
    const proxy = await startProxy(server)
    proxy.delayMs = 10
    const closings = Array.from({ length: 24 }, async (_, turn) => {
      const driver = await openDriver(`redis://127.0.0.1:${proxy.port}`)
      return { driver, afterMs: 50 + turn * 10 }
    })
    const drivers = await Promise.all(closings)
    proxy.cut()
    await Promise.all(drivers.map(({ driver, afterMs }) => pause(afterMs).then(() => driver.close())))
    await pause(50)
    expect(unhandled).toEqual([])
  })
})

describe('a claim that is handed on', () => {
  test('notifies the client that renewed it last, holder or waiter', async () => {
    const server = await startServer()
    const [giver, taker] = [await openDriver(server.url), await openDriver(server.url)]
    const received = notificationsOf(taker)
    const fence = fenceOf(await claim(giver, 'holder'))
    await renew(taker, 'holder')
    await claim(giver, 'waiter')
    await renew(taker, 'waiter')
    await giver.send([{ op: 'evict', key, fence, reason: 'stuck' }])
    await eventually(() => received.length >= 2, 'The notification')
    expect(received).toEqual(['holder absent', 'waiter held'])
  })
})

/** What goes wrong with one NATS server, its connections and its bucket. */
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { Kvm } from '@nats-io/kv'
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { Claim, LockDriver, Notification } from '../../src/core/contract/driver.ts'
import type { ObservedDocument } from '../../src/drivers/document/driver.ts'
import { dialNats } from '../../src/drivers/nats/client.ts'
import { nats } from '../../src/drivers/nats/driver.ts'
import { JetStreamApi } from '../../src/drivers/nats/jetstream-api.ts'
import { tokenOfKey } from '../../src/drivers/nats/keys.ts'
import { NatsStore } from '../../src/drivers/nats/store.ts'
import { sweepBucket } from '../../src/drivers/nats/sweep.ts'
import { parseNatsUrl } from '../../src/drivers/nats/url.ts'
import { createLocks, connect as connectLocks, type Locks } from '../../src/index.ts'
import { claim, claiming, claimOf, fenceOf, release, renew, untilAnswered } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { freshBucket } from '../support/nats-harness.ts'
import { NatsServer } from '../support/nats-server.ts'
import { natsAt, openNats, openNatsLocks } from '../support/nats-store.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

const server = await NatsServer.start()
afterAll(() => server.stop())

const open = (bucket: string): Promise<LockDriver> => openNats(server.url, bucket)
const openLocks = (bucket: string, ttl = 10_000): Promise<Locks> => openNatsLocks(server.url, bucket, ttl)

async function proxied(): Promise<TcpProxy> {
  const proxy = await TcpProxy.start(server)
  onTestFinished(() => proxy.stop())
  return proxy
}

async function connected(): Promise<NatsConnection> {
  const connection = await connect({ servers: `127.0.0.1:${server.port}` })
  onTestFinished(() => connection.close())
  return connection
}

/** Makes a bucket with settings that Leasehold would not choose. */
const makeBucket = (bucket: string, settings: object): Promise<unknown> =>
  server.api(`STREAM.CREATE.KV_${bucket}`, {
    name: `KV_${bucket}`,
    subjects: [`$KV.${bucket}.>`],
    discard: 'new',
    max_msgs_per_subject: 1,
    allow_rollup_hdrs: true,
    storage: 'file',
    ...settings,
  })

const key = 'default/named:report'

describe('notifications', () => {
  test('a release sends one message, to the next in line and nobody else', async () => {
    const bucket = freshBucket()
    const received: string[] = []
    const connection = await connected()
    connection.subscribe(`leasehold.${bucket}.>`, { callback: (_, message) => void received.push(message.string()) })
    const holder = await open(bucket)
    const held = claimOf(key)
    await claim(holder, held)
    const waiters = await Promise.all(
      Array.from({ length: 8 }, async () => ({ driver: await open(bucket), wanted: claimOf(key) })),
    )
    for (const { driver, wanted } of waiters) await claim(driver, wanted)
    const notified: number[] = []
    for (const [index, { driver }] of waiters.entries())
      driver.listen?.((_key, _id, notification) => notification === 'poll' && notified.push(index))
    await release(holder, held)
    await eventually(() => notified.length > 0, 'a notification')
    await connection.flush()
    expect(received).toEqual([JSON.stringify({ key, id: waiters[0]?.wanted.id })])
    expect(notified).toEqual([0])
  })

  test('who waits gets its turn although every notification is lost', async () => {
    const bucket = freshBucket()
    const [holder, waiter] = [await openLocks(bucket), await openLocks(bucket)]
    const connection = await connected()
    // Nobody hears what a holder that may not publish says.
    const quiet = new Proxy(connection, {
      get: (target, name) => {
        if (name === 'publish') return () => undefined
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      },
    })
    const mute = await createLocks({ driver: nats(quiet, { bucket }), logger: silent })
    onTestFinished(() => mute.close())
    const lease = await mute.acquire('report')
    const next = waiter.acquire('report', { wait: '60s' })
    await eventually(async () => (await holder.list()).locks.some(({ waiters }) => waiters.length > 0), 'a waiter')
    await lease.release()
    expect((await next).fence).toBeGreaterThan(lease.fence)
  })

  test('a connection that was interrupted is a gap: what was missed is found at once', async () => {
    const bucket = freshBucket()
    const proxy = await proxied()
    const driver = await openNats(natsAt(proxy), bucket)
    const other = await open(bucket)
    const [held, waiting] = [claimOf(key), claimOf(key)]
    await claim(other, held)
    expect(await claim(driver, waiting)).toMatchObject({ state: 'waiting' })
    const received: Notification[] = []
    driver.listen?.((_key, id, notification) => id === waiting.id && received.push(notification))
    proxy.refuse()
    await release(other, held)
    proxy.restore()
    await eventually(() => received.includes('poll'), 'a poll')
    expect(await untilAnswered(() => renew(driver, waiting))).toMatchObject({ state: 'held' })
  })
})

test('an interrupted connection is said to be a gap when it is back', async () => {
  const proxy = await proxied()
  let gaps = 0
  const store = await openStore(freshBucket(), natsAt(proxy), (opening) =>
    opening.listen(
      'channel',
      () => {},
      () => (gaps += 1),
    ),
  )
  await store.load([key])
  expect(gaps).toBe(0)
  proxy.refuse()
  proxy.restore()
  await eventually(() => gaps > 0, 'a gap', 30_000)
})

describe('a connection', () => {
  test('that is cut after a claim was carried out leaves it unknown, and giving up releases it by its id', async () => {
    const bucket = freshBucket()
    const proxy = await proxied()
    const driver = await openNats(natsAt(proxy), bucket, { timeout: 1000 })
    const other = await open(bucket)
    const lost = claimOf(key)
    const cut = proxy.cutAfterRequest()
    // A key that is new is written without a reading: the request that is cut is the write, which must not count as refused.
    expect(await claim(driver, lost)).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE' } })
    await cut
    expect(await untilAnswered(() => release(driver, lost))).toMatchObject({ state: 'absent' })
    expect(await claim(other, claimOf(key, { wait: false }))).toMatchObject({ state: 'held' })
  })

  test('that answers nothing is given up in time, and holders stop before others are let in', async () => {
    const bucket = freshBucket()
    const proxy = await proxied()
    const holder = await openNatsLocks(natsAt(proxy), bucket, 3000)
    const others = await openLocks(bucket, 3000)
    const lease = await holder.acquire('report')
    const next = others.acquire('report', { wait: '60s' })
    proxy.pause()
    const successor = await next
    expect(lease.held).toBe(false)
    expect(successor.fence).toBeGreaterThan(lease.fence)
    proxy.resume()
  })

  test('that is silent for good is replaced: the holder keeps its lock', async () => {
    const bucket = freshBucket()
    const proxy = await proxied()
    const holder = await openNatsLocks(natsAt(proxy), bucket, 9000)
    const lease = await holder.acquire('report')
    let renewed = 0
    holder.on('renewed', () => (renewed += 1))
    proxy.silence()
    await eventually(() => renewed >= 1, 'a renewal')
    expect(lease.signal.aborted).toBe(false)
    await lease.release()
  })

  test('of the caller stays open, also where its driver was closed, and is never closed by it', async () => {
    const connection = await connected()
    const locks = await createLocks({ driver: nats(connection, { bucket: freshBucket(), syncAlways: true }) })
    await locks.run('report', () => {})
    await locks.close()
    expect(connection.isClosed()).toBe(false)
    await connection.close()
    const late = nats(connection)
    await expect(late.open()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await late.close()
  })

  test('of the caller that was closed below a driver is said to be', async () => {
    const connection = await connected()
    const driver = nats(connection, { bucket: freshBucket() })
    onTestFinished(() => driver.close())
    await driver.open()
    await connection.close()
    await expect(claim(driver, claimOf(key))).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
  })
})

describe('a server', () => {
  test('that is killed and started again has all its locks, and nobody lets go', async () => {
    const own = await NatsServer.start()
    onTestFinished(() => own.stop())
    const bucket = freshBucket()
    const [locks, others] = [await openNatsLocks(own.url, bucket, 20_000), await openNatsLocks(own.url, bucket, 20_000)]
    const lease = await locks.acquire('report')
    await own.kill()
    await expect(others.tryAcquire('report')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await own.start()
    const seen = await eventually(
      () =>
        others.tryAcquire('report').then(
          (found) => ({ found }),
          () => undefined,
        ),
      'an answer',
    )
    expect(seen.found).toBeNull()
    await eventually(
      () =>
        lease.renew().then(
          () => true,
          () => false,
        ),
      'a renewal',
    )
    await lease.release()
    expect((await others.acquire('report')).fence).toBeGreaterThan(lease.fence)
  })

  test('without JetStream is said to be', async () => {
    const own = await NatsServer.start({ plain: true })
    onTestFinished(() => own.stop())
    const driver = nats(own.url)
    onTestFinished(() => driver.close())
    await expect(driver.open()).rejects.toThrow('JetStream is not enabled')
  })

  test('that wants a password is told one, and says so where it or a right is missing, without repeating it', async () => {
    const rights = `publish: ["$JS.API.STREAM.INFO.KV_leasehold", "$JS.API.STREAM.CREATE.KV_leasehold",
      "$JS.API.STREAM.MSG.GET.KV_leasehold", "$JS.API.STREAM.PURGE.KV_leasehold", "$KV.leasehold.*", "leasehold.leasehold.*"],
      subscribe: ["_INBOX.>", "leasehold.leasehold.*"]`
    const own = await NatsServer.start({
      settings: `accounts { A { jetstream: enabled, users: [
        { user: root, password: top }, { user: ann, password: "p@ss", permissions: { ${rights} } } ] } }`,
      login: { user: 'root', pass: 'top' },
    })
    onTestFinished(() => own.stop())
    const at = `127.0.0.1:${own.port}`
    // The rights that docs/stores/nats.md lists are enough.
    const [locks, others] = await Promise.all([
      connectLocks(`nats://ann:p%40ss@${at}`, { logger: silent }),
      connectLocks(`nats://ann:p%40ss@${at}`, { logger: silent }),
    ])
    onTestFinished(async () => void (await Promise.all([locks.close(), others.close()])))
    const lease = await locks.acquire('report')
    const next = others.acquire('report', { wait: '30s' })
    await lease.release()
    await (await next).release()
    for (const [url, reason] of [
      [`nats://ann:wr0ng@${at}`, 'auth'],
      [`nats://${at}`, 'auth'],
      [`nats://ann:p%40ss@${at}?bucket=elsewhere`, 'auth'],
    ] as const) {
      const driver = nats(url, { timeout: 2000 })
      onTestFinished(() => driver.close())
      const error = await driver.open().then(
        () => undefined,
        (failure: unknown) => failure,
      )
      expect(error).toMatchObject({ code: 'UNAVAILABLE', reason })
      expect(String(error)).not.toMatch(/wr0ng|p@ss|p%40ss/)
    }
  })
})

describe('a bucket', () => {
  test.each<[string, object]>([
    ['a TTL', { max_age: 3_600_000_000_000 }],
    ['a history', { max_msgs_per_subject: 5 }],
    ['room that it makes by forgetting', { discard: 'old', max_bytes: 100_000 }],
  ])('with %s is refused when it is opened', async (_, settings) => {
    const bucket = freshBucket()
    await makeBucket(bucket, settings)
    const driver = nats(server.url, { bucket })
    onTestFinished(() => driver.close())
    await expect(driver.open()).rejects.toMatchObject({ code: 'INVALID' })
  })

  test('that may lose locks is warned of, by the client and by doctor', async () => {
    const driver = nats(server.url, { bucket: freshBucket() })
    onTestFinished(() => driver.close())
    await driver.open()
    expect(driver.warnings).toEqual([expect.stringContaining('sync_interval: always')])
    const bucket = freshBucket()
    await makeBucket(bucket, { storage: 'memory' })
    const forgetful = await openNats(server.url, bucket)
    expect(forgetful.warnings).toEqual([expect.stringContaining('is in memory')])
  })

  test('that is full says so, refuses every write, and goes on once it has room', async () => {
    const bucket = freshBucket()
    await makeBucket(bucket, { max_bytes: 3000 })
    const driver = await open(bucket)
    const held = claimOf(key)
    const first = fenceOf(await claim(driver, held))
    const large = claimOf('default/named:large', { runner: { ...held.runner, metadata: { note: 'x'.repeat(4000) } } })
    await expect(claim(driver, large)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'full' })
    await server.api(`STREAM.UPDATE.KV_${bucket}`, {
      ...(await server.api(`STREAM.INFO.KV_${bucket}`)).config,
      max_bytes: -1,
    })
    expect(await claim(driver, large)).toMatchObject({ state: 'held' })
    expect(await renew(driver, held)).toMatchObject({ state: 'held', fence: first })
  })

  test('with a queue that is larger than a message says so, for that lock alone', async () => {
    const own = await NatsServer.start({ settings: 'max_payload: 8192' })
    onTestFinished(() => own.stop())
    const driver = await openNats(own.url, freshBucket())
    const { runner } = claimOf(key)
    const large = (): Claim => claimOf(key, { runner: { ...runner, metadata: { note: 'x'.repeat(900) } } })
    const [first, last] = [large(), large()]
    const statuses = []
    const wanted = [first, ...Array.from({ length: 18 }, large), last]
    for (const each of wanted)
      statuses.push(await claim(driver, each).catch((error: unknown) => ({ state: 'refused', error })))
    expect(statuses[0]).toMatchObject({ state: 'held' })
    expect(statuses.at(-1)).toMatchObject({ error: { code: 'UNAVAILABLE', reason: 'full' } })
    const both = await driver.send([claiming(last), claiming(claimOf('default/named:bystander'))])
    expect(both).toMatchObject([{ state: 'unknown', error: { reason: 'full' } }, { state: 'held' }])
    // Those that are in renew, also with numbers that grow longer, and also beside one that there is no room for.
    const { ttlMs } = first
    const isIn = ({ id }: Claim): boolean => listed?.claims.some((claimed) => claimed.id === id) === true
    const [listed] = (await driver.list({ key })).keys
    const renewals = wanted.filter(isIn).map(({ id }) => ({ op: 'renew', key, id, ttlMs }) as const)
    for (let round = 1; round <= 11; round += 1) {
      const [refused, ...renewed] = await driver.send([claiming(last), ...renewals])
      expect(refused).toMatchObject({ state: 'unknown', error: { reason: 'full' } })
      expect(new Set(renewed.map(({ state }) => state))).toEqual(new Set(['held', 'waiting']))
    }
    // Room comes back as its claims end.
    expect(await release(driver, first)).toMatchObject({ state: 'absent' })
  })

  test('that was removed is made again: holders notice at their next renewal, and fences keep growing', async () => {
    const bucket = freshBucket()
    const driver = await open(bucket)
    const held = claimOf(key)
    const fence = fenceOf(await claim(driver, held))
    await server.api(`STREAM.DELETE.KV_${bucket}`)
    expect(await untilAnswered(() => renew(driver, held))).toMatchObject({ state: 'absent' })
    expect(fenceOf(await untilAnswered(() => claim(driver, claimOf(key))))).toBeGreaterThan(fence)
  })

  test('whose numbers began again takes no swap that was held up meanwhile', async () => {
    const bucket = freshBucket()
    const store = await openStore(bucket)
    const document: ObservedDocument = { version: 1, lastFence: 1, claims: [], nonce: 'one' }
    const write = async (nonce: string) => {
      const [read] = await store.load([key])
      const [outcome] = await store.swap([
        { key, document: { ...document, nonce }, revision: read?.revision ?? store.absentRevision, idle: false },
      ])
      expect(outcome).toHaveProperty('written')
    }
    await write('one')
    const [stale] = await store.load([key])
    // An older copy, in which the message of the same number is another's.
    await server.api(`STREAM.DELETE.KV_${bucket}`)
    await makeBucket(bucket, {})
    await write('another')
    const [now] = await store.load([key])
    expect(now?.revision.seq).toBe(stale?.revision.seq)
    await pause(1100)
    const late = {
      key,
      document: { ...document, nonce: 'late' },
      revision: stale?.revision ?? store.absentRevision,
      idle: false,
    }
    expect(await store.swap([late])).toEqual(['conflict'])
    expect((await store.load([key]))[0]?.document?.nonce).toBe('another')
  })

  test('can be read and cleaned with the tools of KV: a deleted key is a free lock, with a higher fence', async () => {
    const bucket = freshBucket()
    const driver = await open(bucket)
    const held = claimOf(key)
    const fence = fenceOf(await claim(driver, held))
    const kv = await new Kvm(await connected()).open(bucket)
    const entry = await kv.get(tokenOfKey(key))
    expect(entry?.json<ObservedDocument>()).toMatchObject({
      version: 1,
      lastFence: fence,
      claims: [{ claim: { id: held.id } }],
    })
    await kv.delete(tokenOfKey(key))
    expect(await renew(driver, held)).toMatchObject({ state: 'absent' })
    const after = claimOf(key)
    const second = fenceOf(await claim(driver, after))
    expect(second).toBeGreaterThan(fence)
    await kv.purge(tokenOfKey(key))
    expect(fenceOf(await claim(driver, claimOf(key)))).toBeGreaterThan(second)
  })

  test('with a value that is not ours, or of a newer format, refuses that lock and lists the others', async () => {
    const bucket = freshBucket()
    const driver = await open(bucket)
    const kv = await new Kvm(await connected()).open(bucket)
    await kv.put(tokenOfKey(key), 'hello')
    await kv.put(tokenOfKey('default/named:newer'), JSON.stringify({ version: 2, lastFence: 1, claims: [], nonce: '' }))
    await kv.put('not.ours', 'hello')
    await claim(driver, claimOf('default/named:good'))
    await expect(claim(driver, claimOf(key))).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'corrupt' })
    await expect(claim(driver, claimOf('default/named:newer'))).rejects.toMatchObject({ reason: 'foreign' })
    expect((await driver.list({})).keys.map((listed) => listed.key)).toEqual(['default/named:good'])
  })

  test('keeps no idle document for ever, and none that is used is removed', async () => {
    const bucket = freshBucket()
    const driver = await open(bucket)
    const idle = Array.from({ length: 12 }, (_, number) => claimOf(`default/named:idle-${number}`))
    await driver.send(idle.map((wanted) => ({ op: 'claim', claim: wanted })))
    const held = claimOf(key)
    await claim(driver, held)
    await driver.send(idle.map(({ key: name, id }) => ({ op: 'release', key: name, id })))
    const api = new JetStreamApi(await connected(), 5000)
    const place = { stream: `KV_${bucket}`, subjects: `$KV.${bucket}.>`, isClosed: () => false }
    await sweepBucket(api, place, documentIn)
    // Not yet: a day has not passed.
    expect((await server.api(`STREAM.INFO.KV_${bucket}`)).state?.messages).toBe(13)
    await sweepBucket(api, place, documentIn, 0)
    expect((await server.api(`STREAM.INFO.KV_${bucket}`)).state?.messages).toBe(1)
    expect(await renew(driver, held)).toMatchObject({ state: 'held' })
    // What is gone is as if it had never been.
    expect(await claim(driver, claimOf('default/named:idle-0'))).toMatchObject({ state: 'held' })
  })

  test('keeps the last fence that was taken from a clock ahead, however long ago the document was written', async () => {
    const bucket = freshBucket()
    const driver = await open(bucket)
    const held = claimOf(key)
    const days = 3
    const fence = await ahead(days * 86_400_000, async () => {
      const taken = fenceOf(await claim(driver, held))
      await release(driver, held)
      return taken
    })
    expect(fence).toBeGreaterThan((Date.now() + (days - 1) * 86_400_000) * 1000)
    // By the server itself, where it can.
    const { message } = await server.api(`STREAM.MSG.GET.KV_${bucket}`, {
      last_by_subj: `$KV.${bucket}.${tokenOfKey(key)}`,
    })
    const [, ttl] = /Nats-TTL: (\d+)s/.exec(Buffer.from(message?.hdrs ?? '', 'base64').toString()) ?? []
    expect(Number(ttl ?? Infinity)).toBeGreaterThan(days * 86_400)
    // And by the sweeps of clients.
    const api = new JetStreamApi(await connected(), 5000)
    await claim(driver, claimOf('default/named:newer'))
    await sweepBucket(
      api,
      { stream: `KV_${bucket}`, subjects: `$KV.${bucket}.>`, isClosed: () => false },
      documentIn,
      0,
    )
    expect(fenceOf(await claim(driver, claimOf(key)))).toBeGreaterThan(fence)
  })

  test('loses no document that was taken again while it is swept', async () => {
    const bucket = freshBucket()
    const driver = await open(bucket)
    const [gone, again] = [claimOf(key), claimOf(key)]
    await claim(driver, gone)
    await release(driver, gone)
    let removals = 0
    class SlowApi extends JetStreamApi {
      override async call(method: string, body: object, withinMs?: number): Promise<object> {
        if (method.startsWith('STREAM.PURGE')) {
          removals += 1
          await claim(driver, again)
        }
        return super.call(method, body, withinMs)
      }
    }
    const place = { stream: `KV_${bucket}`, subjects: `$KV.${bucket}.>`, isClosed: () => false }
    await sweepBucket(new SlowApi(await connected(), 5000), place, documentIn, 0)
    expect(removals).toBe(1)
    expect(await renew(driver, again)).toMatchObject({ state: 'held' })
  })

  test('with a value that is not ours, or of a newer format, is swept around it', async () => {
    const bucket = freshBucket()
    const driver = await open(bucket)
    const kv = await new Kvm(await connected()).open(bucket)
    for (const [index, value] of ['{}', '{"version":2,"lastFence":1,"claims":[],"nonce":""}', '[]'].entries())
      await kv.put(`foreign-${index}`, value)
    const idle = claimOf(key)
    await claim(driver, idle)
    await release(driver, idle)
    const api = new JetStreamApi(await connected(), 5000)
    await sweepBucket(
      api,
      { stream: `KV_${bucket}`, subjects: `$KV.${bucket}.>`, isClosed: () => false },
      documentIn,
      0,
    )
    expect(await api.subjects(`KV_${bucket}`, `$KV.${bucket}.>`)).toEqual(
      [0, 1, 2].map((index) => `$KV.${bucket}.foreign-${index}`),
    )
  })

  test('that was made anew without our settings takes releases', async () => {
    const bucket = freshBucket()
    const driver = await open(bucket)
    await claim(driver, claimOf(key))
    await server.api(`STREAM.DELETE.KV_${bucket}`)
    await makeBucket(bucket, {})
    const held = claimOf('default/named:other')
    await claim(driver, held)
    expect(await release(driver, held)).toEqual({ state: 'absent', reason: 'released' })
  })

  test.each([
    ['was made anew', true],
    ['was changed', false],
  ])('that %s under way so that it would lose locks is refused', async (_title, isAnew) => {
    const bucket = freshBucket()
    const driver = await open(bucket)
    await claim(driver, claimOf(key))
    const forgets = { max_age: 120_000_000_000 }
    if (isAnew) {
      await server.api(`STREAM.DELETE.KV_${bucket}`)
      await makeBucket(bucket, forgets)
    } else {
      const { config } = await server.api(`STREAM.INFO.KV_${bucket}`)
      await server.api(`STREAM.UPDATE.KV_${bucket}`, { ...config, ...forgets })
    }
    const refused = (): Promise<unknown> =>
      claim(driver, claimOf(key)).then(
        () => undefined,
        (error: unknown) => error,
      )
    const error = await eventually(refused, 'a refusal')
    expect(error).toMatchObject({ code: 'UNAVAILABLE', reason: 'configuration' })
    expect(String(error)).toContain('has a TTL')
  })
})

const documentIn = ({ data = '' }: { readonly data?: string }): ObservedDocument =>
  JSON.parse(Buffer.from(data, 'base64').toString()) as ObservedDocument

/** Runs `work` in a process whose wall clock is ahead. */
async function ahead<Result>(ms: number, work: () => Promise<Result>): Promise<Result> {
  const { now } = Date
  const wall = vi.spyOn(Date, 'now').mockImplementation(() => now() + ms)
  try {
    return await work()
  } finally {
    wall.mockRestore()
  }
}

const silent = { debug: () => {}, info: () => {}, warn: () => {} }

async function openStore(
  bucket: string,
  url = server.url,
  before: (store: NatsStore) => void = () => {},
): Promise<NatsStore> {
  const store = new NatsStore({
    bucket,
    replicas: 1,
    syncAlways: true,
    timeoutMs: 5000,
    polling: { minMs: 100, maxMs: 1000, keysPerSecondMax: 1000 },
    supports: nats(server.url).supports,
    source: () => dialNats(parseNatsUrl(url), undefined, 5000),
  })
  onTestFinished(() => store.close())
  before(store)
  await store.open()
  return store
}

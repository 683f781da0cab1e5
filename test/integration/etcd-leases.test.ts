/** What holds in real time, on real leases: there is no clock to move. Ttls are of some seconds. */
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Claim, LockDriver } from '../../src/core/contract/driver.ts'
import { etcd, type EtcdOptions, type LeasesForTests } from '../../src/drivers/etcd/driver.ts'
import { leaseWarning } from '../../src/drivers/etcd/rpc/messages.ts'
import { createLocks, type Locks } from '../../src/index.ts'
import { Child } from '../support/child.ts'
import { ask, claim, claimOf, release, renew } from '../support/claims.ts'
import { EtcdServer } from '../support/etcd-server.ts'
import {
  addressOf,
  freshPrefix,
  onNotification,
  leaseOf,
  markersIn,
  openEtcd,
  openEtcdLocks,
  startProxy,
  stored,
  whoAnswers,
} from '../support/etcd-store.ts'
import { eventually } from '../support/eventually.ts'
import { cliBench } from '../unit/support/cli-bench.ts'
import { signalTo } from '../support/signal.ts'

const server = await EtcdServer.start()
afterAll(() => server.stop())

const open = (prefix: string, options?: EtcdOptions, url = server.url): Promise<LockDriver> =>
  openEtcd(url, prefix, options)
const openLocks = (prefix: string, ttl = 10_000): Promise<Locks> => openEtcdLocks(server.url, prefix, ttl)

/** Renews a claim every now and then until the test is over. */
function keepRenewing(driver: LockDriver, kept: Claim): void {
  const beating = setInterval(() => void renew(driver, kept).catch(() => {}), 500)
  onTestFinished(() => clearInterval(beating))
}

describe('a process that stops answering', () => {
  test('a holder that is killed is succeeded when its etcd lease ends', async () => {
    const prefix = freshPrefix()
    const child = new Child('etcd-holder', [`${server.url}/${prefix}`, 'report', '2000'])
    onTestFinished(() => child.kill())
    const fence = Number((await child.line(/^held/)).split(' ')[1])
    const locks = await openLocks(prefix)
    const next = locks.acquire('report', { wait: '60s' })
    await child.kill()
    const lease = await next
    expect(lease.fence).toBeGreaterThan(fence)
    expect(lease.signal.aborted).toBe(false)
  })

  test('whoever waits is told to ask when the marker of a holder goes, and need not ask before', async () => {
    const prefix = freshPrefix()
    const driver = await open(prefix)
    const dying = etcd(server.url, { prefix })
    await claim(dying, claimOf('a', { ttlMs: 1000 }))
    const waiting = claimOf('a')
    expect(await claim(driver, waiting)).toMatchObject({ state: 'waiting' })
    const received = onNotification(driver, waiting.id)
    await dying.close()
    await eventually(() => received.includes('poll'), 'a nudge')
    expect(await renew(driver, waiting)).toMatchObject({ state: 'held', after: { how: 'expired' } })
  })

  test('a claim that nobody renews ends beside one that is renewed on the same etcd lease', async () => {
    const prefix = freshPrefix()
    const [driver, other] = [await open(prefix), await open(prefix)]
    // Longer than a busy machine takes from one step to the next.
    const ttlMs = 20_000
    const [forgotten, kept] = [claimOf('forgotten', { ttlMs }), claimOf('kept', { ttlMs })]
    await claim(driver, forgotten)
    await claim(driver, kept)
    const names = await markersIn(server, prefix)
    const leases = await Promise.all(names.map((name) => leaseOf(server, name)))
    expect(new Set(leases).size).toBe(1)
    keepRenewing(driver, kept)
    await eventually(async () => (await markersIn(server, prefix)).length === 1, 'the end')
    expect(await claim(other, claimOf('forgotten'))).toMatchObject({ state: 'held', after: { how: 'expired' } })
    expect(await claim(other, claimOf('kept', { wait: false }))).toEqual({ state: 'absent', reason: 'refused' })
  })

  test('a waiter that died is not brought back by what others write', async () => {
    const prefix = freshPrefix()
    const driver = await open(prefix)
    const dying = etcd(server.url, { prefix })
    const dead = claimOf('a', { ttlMs: 1000 })
    await claim(driver, claimOf('a'))
    await claim(dying, dead)
    await dying.close()
    const isThere = async (): Promise<boolean> => (await stored(server, prefix)).some((name) => name.endsWith(dead.id))
    await eventually(async () => !(await isThere()), 'its end')
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'waiting' })
    expect(await isThere()).toBe(false)
  })

  test('a holder that is stopped for longer than its ttl finds itself without the lock', async () => {
    const prefix = freshPrefix()
    const child = new Child('etcd-holder', [`${server.url}/${prefix}`, 'report', '1500'])
    onTestFinished(() => child.kill())
    const fence = Number((await child.line(/^held/)).split(' ')[1])
    const locks = await openLocks(prefix)
    const next = locks.acquire('report', { wait: '60s' })
    signalTo(child.process, 'SIGSTOP')
    const lease = await next
    expect(lease.fence).toBeGreaterThan(fence)
    signalTo(child.process, 'SIGCONT')
    expect(await child.line(/^lost/)).toBe(`lost ${fence}`)
    expect(lease.signal.aborted).toBe(false)
  })
})

describe('a claim in other hands', () => {
  test('lives on when it is renewed by another driver, whatever becomes of the one that made it', async () => {
    const prefix = freshPrefix()
    const [first, second, third] = [await open(prefix), await open(prefix), await open(prefix)]
    const passed = claimOf('a', { ttlMs: 4000 })
    await claim(first, passed)
    const [marker = ''] = await markersIn(server, prefix)
    const before = await leaseOf(server, marker)
    expect(await renew(second, passed)).toMatchObject({ state: 'held' })
    expect(await leaseOf(server, marker)).not.toBe(before)
    keepRenewing(second, passed)
    // The first thinks that its time is over, and finds the marker on another's lease.
    await pause(6000)
    expect(await claim(third, claimOf('a', { wait: false }))).toEqual({ state: 'absent', reason: 'refused' })
    expect(await renew(second, passed)).toMatchObject({ state: 'held' })
  })

  test('is told no time that only another knows of', async () => {
    const prefix = freshPrefix()
    const [first, second] = [await open(prefix), await open(prefix)]
    const one = claimOf('a', { ttlMs: 5000 })
    await claim(first, one)
    expect(await claim(second, one)).toMatchObject({ state: 'held', ttlMs: 1 })
  })

  test('renewed for another ttl moves to another etcd lease, and is told no more than that one has', async () => {
    const prefix = freshPrefix()
    const driver = await open(prefix)
    const one = claimOf('a', { ttlMs: 5000 })
    await claim(driver, one)
    const [marker = ''] = await markersIn(server, prefix)
    const before = await leaseOf(server, marker)
    const status = await renew(driver, { ...one, ttlMs: 20_000 })
    expect(status).toMatchObject({ state: 'held' })
    expect((status as { ttlMs: number }).ttlMs).toBeGreaterThan(15_000)
    expect(await leaseOf(server, marker)).not.toBe(before)
  })
})

async function grantedSeconds(lease: number): Promise<number> {
  const answer = await server.control('lease', 'timetolive', lease.toString(16))
  return Number(/granted with TTL\((\d+)s\)/.exec(answer)?.[1])
}

async function remainingSeconds(lease: number): Promise<number> {
  const answer = await server.control('lease', 'timetolive', lease.toString(16))
  return Number(/remaining\((\d+)s\)/.exec(answer)?.[1] ?? 0)
}

describe('a claim that is to outlive its process', () => {
  test('of seconds and a part has the part as well: its etcd lease is of whole seconds, rounded up', async () => {
    const driver = await open(freshPrefix())
    const status = await claim(driver, claimOf('a', { ttlMs: 20_900 }))
    expect(status.state === 'held' && status.ttlMs).toBe(20_900)
  })

  test('has all of its time, however much of the lease of other claims is over', async () => {
    const prefix = freshPrefix()
    const driver = await open(prefix)
    const [other, first, second] = [claimOf('other'), claimOf('first', { detached: true }), claimOf('second')]
    await claim(driver, other)
    await claim(driver, second)
    const shared = await leaseOf(server, `${prefix}alive/other%:${other.id}`)
    const leaseOfClaim = ({ key, id }: Claim): Promise<number> => leaseOf(server, `${prefix}alive/${key}%:${id}`)
    await eventually(async () => (await remainingSeconds(shared)) <= 57, 'a lease of which some is over')
    expect(await claim(driver, first)).toMatchObject({ state: 'held' })
    const { key, id } = second
    const handedOff = { op: 'renew', key, id, ttlMs: 60_000, detached: true } as const
    expect(await ask(driver, handedOff)).toMatchObject({ state: 'held' })
    const own = [await leaseOfClaim(first), await leaseOfClaim(second)]
    for (const lease of own) expect(await remainingSeconds(lease)).toBeGreaterThanOrEqual(58)
    // Which is not left behind.
    await ask(driver, handedOff)
    await release(driver, first)
    const left = async (): Promise<string[]> => (await server.control('lease', 'list')).split('\n')
    await eventually(async () => {
      const leases = await left()
      return own.every((lease) => !leases.some((one) => one.endsWith(lease.toString(16))))
    }, 'the end of leases that nothing is on')
  })
})

test('an owner whose claim is probed is told no more before it has renewed, which answers', async () => {
  const prefix = freshPrefix()
  const driver = await open(prefix)
  const held = claimOf('a')
  await claim(driver, held)
  const [marker, probe] = [`${prefix}alive/a%:${held.id}`, `${prefix}alive/a%?${held.id}`]
  const before = await server.control('get', marker, '-w', 'json')
  await server.control('put', probe, '')
  expect(await claim(driver, held)).toMatchObject({ state: 'held', ttlMs: 1 })
  expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'waiting' })
  expect(await stored(server, prefix)).toContain(probe)
  const renewed = await renew(driver, held)
  expect(renewed).toMatchObject({ state: 'held' })
  expect((renewed as { ttlMs: number }).ttlMs).toBeGreaterThan(30_000)
  expect(await stored(server, prefix)).not.toContain(probe)
  expect(await server.control('get', marker, '-w', 'json')).not.toBe(before)
})

describe('documents that nobody uses', () => {
  test('are on an etcd lease of three hours, and off it once they are used again', async () => {
    const prefix = freshPrefix()
    const driver = await open(prefix)
    const one = claimOf('a')
    await claim(driver, one)
    expect(await leaseOf(server, `${prefix}lock/a`)).toBe(0)
    await release(driver, one)
    const lease = await leaseOf(server, `${prefix}lock/a`)
    expect(await grantedSeconds(lease)).toBe(10_800)
    await claim(driver, claimOf('a'))
    expect(await leaseOf(server, `${prefix}lock/a`)).toBe(0)
  })

  test('and notifications that nobody may ever read are forgotten by etcd, however long its reader lives', async () => {
    const prefix = freshPrefix()
    const [driver, other] = [await open(prefix), await open(prefix)]
    const [held, waiting] = [claimOf('a'), claimOf('a')]
    await claim(driver, held)
    await claim(other, waiting)
    await release(driver, held)
    const [notification = ''] = (await stored(server, prefix)).filter((name) =>
      name.startsWith(`${prefix}notification/`),
    )
    expect(await grantedSeconds(await leaseOf(server, notification))).toBe(10_800)
  })

  test('of claims that all died are settled by whoever opens the store next', async () => {
    const prefix = freshPrefix()
    const driver = etcd(server.url, { prefix })
    await driver.open()
    await claim(driver, claimOf('a', { ttlMs: 1000 }))
    await driver.close()
    await eventually(async () => (await stored(server, prefix)).length === 1, 'the end of its lease')
    // Something else in the way is left alone.
    await server.control('put', `${prefix}lock/0`, '{"version":1,"lastFence":1}')
    await open(prefix)
    await eventually(async () => (await leaseOf(server, `${prefix}lock/a`)) !== 0, 'a settled document')
  })

  test('whose fence is ahead of the clock are kept for ever', async () => {
    const prefix = freshPrefix()
    const driver = await open(prefix)
    const one = claimOf('a')
    await claim(driver, one)
    const floor = (Date.now() + 86_400_000) * 1000
    await ask(driver, { op: 'renew', key: 'a', id: one.id, ttlMs: one.ttlMs, fenceFloor: floor })
    await release(driver, one)
    expect(await leaseOf(server, `${prefix}lock/a`)).toBe(0)
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held', fence: floor + 1 })
  })
})

describe('on the way', () => {
  test('a claim whose answer is lost is unknown, is released by its id, and leaves nothing behind', async () => {
    const prefix = freshPrefix()
    const proxy = await startProxy(server)
    const driver = await open(prefix, { timeout: 60_000 }, addressOf(proxy))
    // There is an etcd lease already, so the next request is the claim itself.
    await claim(driver, claimOf('other'))
    const one = claimOf('a')
    const markers = async (): Promise<string[]> =>
      (await stored(server, prefix)).filter((name) => name.endsWith(one.id))
    proxy.dropReplies = true
    const claiming = claim(driver, one)
    await eventually(async () => (await markers()).length === 1, 'the claim')
    proxy.dropReplies = false
    proxy.cut()
    expect((await claiming).state).toBe('unknown')
    expect(await release(driver, one)).toEqual({ state: 'absent', reason: 'released' })
    expect(await markers()).toEqual([])
  })

  test('a grant that is notified is trusted for what is left of the time since the claim was sent', async () => {
    const prefix = freshPrefix()
    const [driver, other] = [await open(prefix), await open(prefix)]
    const [held, waiting] = [claimOf('a'), claimOf('a', { ttlMs: 20_000 })]
    await claim(driver, held)
    await claim(other, waiting)
    const answeredAt = performance.now()
    const received = onNotification(other, waiting.id)
    await pause(100)
    const waitedMs = performance.now() - answeredAt
    await release(driver, held)
    const granted = await eventually(
      () => received.find((notification) => notification !== 'poll' && notification.state === 'held'),
      'the grant',
    )
    expect((granted as { ttlMs: number }).ttlMs).toBeLessThanOrEqual(20_000 - Math.floor(waitedMs))
  })

  test('a marker that another removes between the reading of its key and the writing is not put back', async () => {
    const prefix = freshPrefix()
    const proxy = await startProxy(server)
    let onReading = (): void => {}
    const leasesForTests: LeasesForTests = {
      // Asked for when a key has been read.
      now: () => {
        onReading()
        return Date.now()
      },
      known: () => undefined,
      learn: () => {},
    }
    const driver = await open(prefix, { timeout: 60_000, leasesForTests }, addressOf(proxy))
    const one = claimOf('a')
    await claim(driver, one)
    const [marker = ''] = await markersIn(server, prefix)
    const isRead = new Promise<void>((resolve) => {
      onReading = () => {
        onReading = () => {}
        proxy.pause()
        resolve()
      }
    })
    // The marker is to move to an etcd lease of its own.
    const renewing = ask(driver, { op: 'renew', key: 'a', id: one.id, ttlMs: 60_000, detached: true })
    await isRead
    await server.control('del', marker)
    proxy.resume()
    expect(await renewing).toEqual({ state: 'absent', reason: 'expired' })
    expect(await markersIn(server, prefix)).toEqual([])
  })

  test('whoever waits gets its turn though the connection was cut, and nothing survives the closing', async () => {
    const prefix = freshPrefix()
    const proxy = await startProxy(server)
    const [driver, cutOff] = [await open(prefix), await open(prefix, {}, addressOf(proxy))]
    const [held, waiting] = [claimOf('a'), claimOf('a')]
    await claim(driver, held)
    await claim(cutOff, waiting)
    const received = onNotification(cutOff, waiting.id)
    proxy.cut()
    await release(driver, held)
    await eventually(
      () => received.some((notification) => notification === 'poll' || notification.state === 'held'),
      'notifications',
    )
    expect(await renew(cutOff, waiting)).toMatchObject({ state: 'held' })
    await cutOff.close()
    await eventually(() => proxy.connections === 0, 'the end of its connections')
  })

  test('a server that is stopped answers nothing in time, and holders stop when their lease is over', async () => {
    const prefix = freshPrefix()
    const locks = await openLocks(prefix, 1500)
    const lease = await locks.acquire('report')
    server.freeze()
    try {
      await eventually(() => lease.signal.aborted, 'the end of the lease')
    } finally {
      server.thaw()
    }
  })

  test('leases survive a crash of the server, and the holder goes on', async () => {
    const prefix = freshPrefix()
    const [locks, others] = [await openLocks(prefix, 12_000), await openLocks(prefix, 12_000)]
    const lease = await locks.acquire('report')
    let renewed = 0
    locks.on('renewed', () => (renewed += 1))
    await server.kill()
    await server.start()
    expect(await whoAnswers(others, 'report')).toBe('held')
    await eventually(() => renewed >= 2, 'two renewals')
    expect(lease.signal.aborted).toBe(false)
    await lease.release()
    const next = await others.acquire('report')
    expect(next.fence).toBeGreaterThan(lease.fence)
  })
})

describe('what makes no sense', () => {
  test('a document in a newer format, or of garbage, is refused and left alone', async () => {
    const prefix = freshPrefix()
    const driver = await open(prefix)
    await server.control('put', `${prefix}lock/new`, '{"version":9,"claims":[]}')
    await server.control('put', `${prefix}lock/bad`, 'no document')
    await expect(claim(driver, claimOf('new'))).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'foreign' })
    await expect(claim(driver, claimOf('bad'))).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'corrupt' })
    const both = [claimOf('bad'), claimOf('good')].map((one) => ({ op: 'claim', claim: one }) as const)
    expect(await driver.send(both)).toMatchObject([{ state: 'unknown' }, { state: 'held' }])
    expect((await driver.list({})).keys.map(({ key }) => key)).toEqual(['good'])
    await expect(driver.list({ key: 'bad' })).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'corrupt' })
    expect(await server.control('get', '--print-value-only', `${prefix}lock/bad`)).toBe('no document')
  })

  test('nobody there, or somebody else, is said so', async () => {
    await expect(open('a/', {}, 'etcd://127.0.0.1:1')).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
    const mute = await startProxy(server)
    mute.pause()
    const options = { timeout: 300 }
    await expect(open('a/', options, addressOf(mute))).rejects.toMatchObject({ reason: 'network' })
    // Of several nodes one is enough.
    await open(freshPrefix(), {}, `etcd://127.0.0.1:1,127.0.0.1:${server.port}`)
  })

  test('a version that ends leases too early is named when it is opened, and by doctor', async () => {
    const [{ Status }] = JSON.parse(await server.control('endpoint', 'status', '-w', 'json')) as [
      { Status: { version: string } },
    ]
    const fault = leaseWarning(Status.version)
    const said: string[] = []
    const logger = { debug: () => {}, info: () => {}, warn: (text: string) => void said.push(text) }
    const locks = await createLocks({ driver: etcd(server.url, { prefix: freshPrefix() }), logger })
    onTestFinished(() => locks.close())
    expect(said).toEqual(fault === undefined ? [] : [fault])
    const { leasehold, shown } = cliBench()
    expect(await leasehold('doctor', '--store', server.url)).toBe(0)
    const reads = shown.output.split('\n').filter((line) => line.startsWith('WARN'))
    expect(reads).toEqual(fault === undefined ? [] : [`WARN  ${fault}`])
  })

  test('what needs a clock of the store is refused', async () => {
    const driver = await open(freshPrefix())
    for (const query of [{ graceMs: 5 }, { maxHoldMs: 5 }, { evict: 'stale' } as const]) {
      const refused = { state: 'unknown', error: { code: 'UNSUPPORTED' } }
      expect(await claim(driver, claimOf('a', query))).toMatchObject(refused)
    }
  })
})

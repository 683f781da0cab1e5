/** What etcd, the network and operators do to locks that are held, waited for, or just asked for. */
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver, Notification } from '../../src/core/contract/driver.ts'
import { Child } from '../support/child.ts'
import { claim, claimOf, release, renew } from '../support/claims.ts'
import { EtcdServer, urlOf } from '../support/etcd-server.ts'
import {
  addressOf,
  freshPrefix,
  onNotification,
  leaseOf,
  markersIn,
  openEtcd,
  openEtcdLocks,
  startProxy,
} from '../support/etcd-store.ts'
import { eventually } from '../support/eventually.ts'
import { ServerClock } from '../support/server-clock.ts'
import type { TcpProxy } from '../support/tcp-proxy.ts'

const server = await EtcdServer.start()
afterAll(() => server.stop())

/** A driver whose connection goes through the proxy; its next one may go straight to the server. */
async function openThrough(proxy: TcpProxy, prefix: string, timeout: number): Promise<LockDriver> {
  for (;;) {
    const driver = await openEtcd(urlOf([proxy, server]), prefix, { timeout })
    if (proxy.connections > 0) return driver
  }
}

/** Claims something which reaches etcd only after the driver has given up on it, and on the connection. */
async function claimLate(driver: LockDriver, proxy: TcpProxy, ttlMs: number, delayMs: number) {
  // On the etcd lease of this one, which is kept alive.
  const kept = claimOf('kept', { ttlMs })
  await claim(driver, kept)
  proxy.delayMs = delayMs
  const deadlineExceeded = claimOf('late', { ttlMs })
  expect(await claim(driver, deadlineExceeded)).toMatchObject({ state: 'unknown' })
  const beating = setInterval(() => void renew(driver, kept).catch(() => {}), ttlMs / 4)
  onTestFinished(() => clearInterval(beating))
  return deadlineExceeded
}

describe('a claim that arrives late', () => {
  test('after its release, lives for one ttl at most, though others of its process are renewed', async () => {
    const prefix = freshPrefix()
    const proxy = await startProxy(server)
    const driver = await openThrough(proxy, prefix, 2500)
    const deadlineExceeded = await claimLate(driver, proxy, 12_000, 6000)
    expect(await release(driver, deadlineExceeded)).toEqual({ state: 'absent', reason: 'unknown' })
    const arrived = async (): Promise<boolean> =>
      (await markersIn(server, prefix)).some((one) => one.endsWith(deadlineExceeded.id))
    await eventually(arrived, 'the late claim')
    await eventually(async () => !(await arrived()), 'its end')
    const other = await openEtcd(server.url, prefix)
    expect(await claim(other, claimOf('late', { wait: false }))).toMatchObject({ state: 'held' })
  })

  test('after its ttl, does not come to be', async () => {
    const prefix = freshPrefix()
    const proxy = await startProxy(server)
    const driver = await openThrough(proxy, prefix, 2400)
    await claimLate(driver, proxy, 4000, 12_000)
    await eventually(() => proxy.connections === 0, 'all that was on the way')
    const other = await openEtcd(server.url, prefix)
    expect(await claim(other, claimOf('late', { wait: false }))).toMatchObject({ state: 'held' })
  })
})

describe('the watch', () => {
  /** A claim of a key that another driver holds; resolves to its notifications. */
  async function waitFor(driver: LockDriver, key: string): Promise<Notification[]> {
    const waiting = claimOf(key)
    const received = onNotification(driver, waiting.id)
    // A gap makes every waiter poll.
    const gaps = driver.listen?.(
      () => {},
      () => received.push('poll'),
    )
    onTestFinished(() => gaps?.[Symbol.dispose]())
    expect(await claim(driver, waiting)).toMatchObject({ state: 'waiting' })
    return received
  }

  /** Resolves once the waiter is told to poll each time that a marker of the key goes away. */
  async function watched(marker: string, received: readonly unknown[]): Promise<void> {
    for (let nudges = 0; nudges < 3; nudges += 1) {
      const before = received.length
      await eventually(async () => {
        await server.control('put', marker, '')
        await server.control('del', marker)
        return received.length > before
      }, 'a nudge')
    }
  }

  /** A claim waits for a key that another driver holds, and is let in by a notification. */
  async function handOver(from: LockDriver, to: LockDriver, key: string): Promise<void> {
    const held = claimOf(key)
    await claim(from, held)
    const received = await waitFor(to, key)
    await release(from, held)
    await eventually(
      () => received.some((notification) => notification !== 'poll' && notification.state === 'held'),
      'the grant',
    )
  }

  test.each(['all', 'some'])('goes on where etcd has compacted what %s of it missed while cut off', async (which) => {
    const prefix = freshPrefix()
    const proxy = await startProxy(server)
    const [driver, cutOff] = [await openEtcd(server.url, prefix), await openEtcd(addressOf(proxy), prefix)]
    await claim(driver, claimOf('a'))
    const received = await waitFor(cutOff, 'a')
    await watched(`${prefix}alive/a%:somebody`, received)
    // Its notifications are then younger than what is compacted.
    if (which === 'some') await handOver(driver, cutOff, 'b')
    proxy.refuse()
    if (which === 'all') for (const text of ['1', '2']) await server.control('put', `${prefix}unrelated`, text)
    await server.compact()
    const before = received.length
    proxy.restore()
    await eventually(() => received.length > before, 'the end of the silence')
    await watched(`${prefix}alive/a%:somebody`, received)
    await handOver(driver, cutOff, 'c')
  })

  test('leaves a key alone once those of ours who waited there are gone', async () => {
    const prefix = freshPrefix()
    const [driver, other] = [await openEtcd(server.url, prefix), await openEtcd(server.url, prefix)]
    const held = claimOf('a')
    await claim(driver, held)
    await claim(other, claimOf('b'))
    const watches = async (): Promise<number> => {
      const metrics = await (await fetch(`http://127.0.0.1:${server.port}/metrics`)).text()
      return Number(/^etcd_debugging_mvcc_watcher_total (\d+)$/m.exec(metrics)?.[1])
    }
    const notificationsOnly = await eventually(async () => ((await watches()) === 2 ? 2 : undefined), 'two watches')
    const abandoned = claimOf('a', { ttlMs: 3000 })
    await claim(other, abandoned)
    await eventually(async () => (await watches()) > notificationsOnly, 'a third')
    await eventually(
      async () => (await markersIn(server, prefix)).every((name) => !name.endsWith(abandoned.id)),
      'an end',
    )
    await release(driver, held)
    await eventually(async () => (await watches()) === notificationsOnly, 'only two')
  })

  test('that etcd has refused for a token that has ended begins anew with the next', async () => {
    const guarded = await EtcdServer.start()
    onTestFinished(() => guarded.stop())
    await guarded.guard('leasehold/', 'ann:secret')
    const url = guarded.url.replace('//', '//ann:secret@')
    const [driver, other] = [await openEtcd(url, 'leasehold/'), await openEtcd(url, 'leasehold/')]
    await claim(driver, claimOf('before'))
    const held = claimOf('a', { ttlMs: 10_000 })
    await claim(other, held)
    await guarded.endTokens('ann:secret')
    const received = await waitFor(driver, 'a')
    // Nobody lets the next one in: only the marker goes.
    await other.close()
    await eventually(() => received.includes('poll'), 'a nudge')
  })
})

test('calls sent while somebody signs in again are carried out, too', async () => {
  const guarded = await EtcdServer.start()
  onTestFinished(() => guarded.stop())
  await guarded.guard('leasehold/', 'ann:secret')
  const driver = await openEtcd(guarded.url.replace('//', '//ann:secret@'), 'leasehold/')
  await claim(driver, claimOf('before'))
  await guarded.endTokens('ann:secret')
  const answers: Promise<string>[] = []
  // Checking a password takes etcd longer than the turns of this loop.
  for (let number = 0; number < 30; number += 1) {
    answers.push(claim(driver, claimOf(`lock-${number}`)).then(({ state }) => state, String))
    await pause(2)
  }
  expect(new Set(await Promise.all(answers))).toEqual(new Set(['held']))
})

test('nothing survives the closing, though a node fell silent while it was asked', async () => {
  const proxy = await startProxy(server)
  const driver = await openEtcd(addressOf(proxy), freshPrefix(), { timeout: '10m' })
  const short = claimOf('short', { ttlMs: 3000 })
  await claim(driver, short)
  await claim(driver, claimOf('long'))
  proxy.pause()
  const asking = claim(driver, claimOf('other'))
  // The connection is given up, and what else was asked on it goes on waiting.
  expect(await Promise.allSettled([renew(driver, short)])).toMatchObject([{ status: 'rejected' }])
  await driver.close()
  expect(await asking).toMatchObject({ state: 'unknown' })
})

test('who holds on an etcd lease that an operator revokes learns so, and the next claim gets a new one', async () => {
  const prefix = freshPrefix()
  const [driver, other] = [await openEtcd(server.url, prefix), await openEtcd(server.url, prefix)]
  const [held, waiting] = [claimOf('a', { ttlMs: 20_000 }), claimOf('a')]
  const granted = await claim(driver, held)
  await claim(other, waiting)
  const received = onNotification(other, waiting.id)
  const [marker = ''] = (await markersIn(server, prefix)).filter((name) => name.endsWith(held.id))
  await server.control('lease', 'revoke', (await leaseOf(server, marker)).toString(16))
  await eventually(() => received.includes('poll'), 'a nudge')
  const next = await renew(other, waiting)
  expect(next).toMatchObject({ state: 'held', after: { how: 'expired' } })
  expect((next as { fence: number }).fence).toBeGreaterThan((granted as { fence: number }).fence)
  // Nothing has told this driver so far.
  expect(await claim(driver, claimOf('b', { ttlMs: 20_000 }))).toMatchObject({ state: 'held' })
  expect(await renew(driver, held)).toMatchObject({ state: 'absent' })
})

test('a store that is full refuses claims and says so; what is held can be renewed, and ends when it is not', async () => {
  const full = await EtcdServer.start({ settings: { 'quota-backend-bytes': '1000000' } })
  onTestFinished(() => full.stop())
  const driver = await openEtcd(full.url, 'leasehold/')
  const [held, forgotten] = [claimOf('held', { ttlMs: 12_000 }), claimOf('forgotten', { ttlMs: 12_000 })]
  await claim(driver, held)
  await claim(driver, forgotten)
  const fill = (): Promise<unknown> => full.control('put', 'ballast', 'x'.repeat(100_000)).catch(String)
  await eventually(async () => String(await fill()).includes('space exceeded'), 'the end of its room')
  expect(await renew(driver, held)).toMatchObject({ state: 'held' })
  for (const ttlMs of [12_000, 30_000]) {
    const claiming = claim(driver, claimOf('another', { ttlMs }))
    await expect(claiming).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'full' })
  }
  const gone = async (): Promise<boolean> => {
    expect(await renew(driver, held)).toMatchObject({ state: 'held' })
    return !(await markersIn(full, 'leasehold/')).some((name) => name.endsWith(forgotten.id))
  }
  await eventually(gone, 'the end of what nobody renews')
  await expect(release(driver, held)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'full' })
  // What its message tells people to do.
  await full.compact()
  await full.control('defrag')
  await full.control('alarm', 'disarm')
  expect(await release(driver, held)).toEqual({ state: 'absent', reason: 'released' })
  expect(await claim(driver, claimOf('held'))).toMatchObject({ state: 'held' })
})

test.each([2, -2])(
  'a process whose clock is %d hours off keeps its lock, and the next fence is higher',
  async (hours) => {
    const prefix = freshPrefix()
    const clock = new ServerClock()
    onTestFinished(() => clock.remove())
    clock.set(hours * 3_600_000)
    const child = new Child('etcd-holder', [`${server.url}/${prefix}`, 'report', '1500'], clock.environment)
    onTestFinished(() => child.kill())
    const fence = Number((await child.line(/^held/)).split(' ')[1])
    // The first fence of a key is the time of whoever is granted it.
    expect(Math.round((fence / 1000 - Date.now()) / 3_600_000)).toBe(hours)
    const locks = await openEtcdLocks(server.url, prefix, 1500)
    await expect(locks.acquire('report', { wait: '4s' })).rejects.toMatchObject({ code: 'TIMEOUT' })
    expect(child.lines).toEqual([`held ${fence}`])
    await child.kill()
    expect((await locks.acquire('report', { wait: '20s' })).fence).toBeGreaterThan(fence)
  },
)

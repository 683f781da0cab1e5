/** Three nodes that are one store, of which one dies, stops, or cannot reach the others; and one that wants a password. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, afterEach, expect, test } from 'vitest'
import { etcd } from '../../src/drivers/etcd.ts'
import { connect, createLocks, type Locks } from '../../src/index.ts'
import { checkHistory, type HistoryEvent } from '../../src/testing/index.ts'
import { claim, claimOf } from '../support/claims.ts'
import { EtcdServer, urlOf } from '../support/etcd-server.ts'
import { eventually } from '../support/eventually.ts'
import { makePrivateCa } from '../support/private-ca.ts'

const servers = await EtcdServer.startCluster()
afterAll(() => Promise.all(servers.map((server) => server.stop())))

const cleanups: (() => Promise<unknown> | void)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

async function openLocks(prefix: string, ttl: number): Promise<Locks> {
  const locks = await createLocks({ driver: etcd(urlOf(servers), { prefix, timeout: 3000 }), defaults: { ttl } })
  cleanups.push(() => locks.close())
  return locks
}

function leader(): Promise<EtcdServer> {
  return eventually(async () => {
    for (const server of servers) if (await server.isLeader().catch(() => false)) return server
    return undefined
  }, 'a leader')
}

/** Takes and leaves one lock, again and again, and writes down what it was told. */
async function compete(locks: Locks, client: string, events: HistoryEvent[], isOver: () => boolean): Promise<void> {
  for (let turn = 0; !isOver(); turn += 1) {
    const attempt = `${client}/${turn}`
    events.push({ type: 'acquire', at: performance.now(), client, attempt, key: 'shared', mode: 'exclusive' })
    const lease = await locks.acquire('shared', { ttl: '8s', wait: '3s' }).catch(() => undefined)
    if (lease === undefined) {
      events.push({ type: 'refused', at: performance.now(), attempt })
      continue
    }
    // Read the clock first: the deadline noted must not be later than the one the lease keeps.
    const now = performance.now()
    events.push({ type: 'granted', at: now, attempt, fence: lease.fence, deadline: now + lease.remainingMs })
    lease.signal.addEventListener('abort', () => events.push({ type: 'lost', at: performance.now(), attempt }))
    await pause(5)
    events.push({ type: 'release', at: performance.now(), attempt })
    await lease.release().catch(() => {})
  }
}

const holds = (events: readonly HistoryEvent[]): number => events.filter(({ type }) => type === 'granted').length

test('one holder at a time, and holders keep what they have, while leaders are killed', async () => {
  const clients = await Promise.all(Array.from({ length: 3 }, () => openLocks('killed/', 30_000)))
  const steady = await clients[0]?.acquire('steady')
  const events: HistoryEvent[] = []
  let over = false
  const working = clients.map((locks, number) => compete(locks, `client-${number}`, events, () => over))
  for (let turn = 0; turn < 2; turn += 1) {
    const dead = await leader()
    await dead.kill()
    const before = holds(events)
    await eventually(() => holds(events) > before + 20, 'locks without the old leader', 60_000)
    await dead.start()
  }
  over = true
  await Promise.all(working)
  expect(steady?.signal.aborted).toBe(false)
  const { violations } = checkHistory(events, { fair: false })
  expect(violations.map(({ message }) => message)).toEqual([])
})

test('a leader that is stopped is left for another, and its holders keep what they have', async () => {
  const [locks, others] = [await openLocks('stopped/', 12_000), await openLocks('stopped/', 12_000)]
  const lease = await locks.acquire('report')
  const stopped = await leader()
  stopped.freeze()
  cleanups.push(() => stopped.thaw())
  let renewed = 0
  locks.on('renewed', () => (renewed += 1))
  await eventually(() => renewed >= 2, 'two renewals')
  expect(lease.signal.aborted).toBe(false)
  expect(
    await eventually(
      () =>
        others.tryAcquire('report').then(
          (got) => got ?? 'held',
          () => undefined,
        ),
      'an answer',
    ),
  ).toBe('held')
  await lease.release()
  const next = await others.acquire('report', { wait: '60s' })
  expect(next.fence).toBeGreaterThan(lease.fence)
})

test('a store that wants a password is told one, and says so where it is not the right one', async () => {
  const server = await EtcdServer.start()
  cleanups.push(() => server.stop())
  await server.control('user', 'add', 'root:top')
  await server.control('user', 'grant-role', 'root', 'root')
  await server.control('role', 'add', 'locks')
  await server.control('role', 'grant-permission', 'locks', '--prefix=true', 'readwrite', 'leasehold/')
  await server.control('user', 'add', 'ann:p@ss')
  await server.control('user', 'grant-role', 'ann', 'locks')
  await server.control('auth', 'enable')
  const locks = await connect(`etcd://ann:p%40ss@127.0.0.1:${server.port}`)
  cleanups.push(() => locks.close())
  await locks.run('report', () => {})
  for (const url of [
    `etcd://ann:wrong@127.0.0.1:${server.port}`,
    server.url,
    `etcd://ann:p%40ss@127.0.0.1:${server.port}/elsewhere`,
  ]) {
    const driver = etcd(url)
    cleanups.push(() => driver.close())
    await expect(claim(driver, claimOf('a'))).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'auth' })
  }
})

test('a store is reached by TLS, and only if its certificate is one that is trusted', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'leasehold-etcd-ca-'))
  cleanups.push(() => rmSync(folder, { recursive: true }))
  const certificate = makePrivateCa(folder)
  const server = await EtcdServer.start(certificate)
  cleanups.push(() => server.stop())
  const trusting = etcd(server.url, { tls: { ca: readFileSync(certificate.caFile) } })
  cleanups.push(() => trusting.close())
  expect(await claim(trusting, claimOf('a'))).toMatchObject({ state: 'held' })
  for (const url of [server.url, server.url.replace('etcds:', 'etcd:')]) {
    const driver = etcd(url, { timeout: 1000 })
    cleanups.push(() => driver.close())
    await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
  }
})

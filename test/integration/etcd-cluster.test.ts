/** Three nodes that are one store, of which one dies, stops, or cannot reach the others; and one that wants a password. */
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import type { Claim, ClaimStatus } from '../../src/core/contract/driver.ts'
import { etcd } from '../../src/drivers/etcd/driver.ts'
import { connect, type Locks } from '../../src/index.ts'
import { checkHistory, type HistoryEvent } from '../../src/testing/index.ts'
import { claim, claimOf, renew } from '../support/claims.ts'
import { EtcdServer, urlOf } from '../support/etcd-server.ts'
import { leaderOf, markersIn, openEtcd, openEtcdLocks, whoAnswers } from '../support/etcd-store.ts'
import { eventually } from '../support/eventually.ts'
import { PeerNetwork } from '../support/peer-network.ts'
import { makePrivateCa } from '../support/private-ca.ts'
import { folderForTest } from '../support/test-folder.ts'

const network = new PeerNetwork()
const servers = await EtcdServer.startCluster(3, { network })
afterAll(async () => {
  await Promise.all(servers.map((server) => server.stop()))
  await network.stop()
})

const openLocks = (prefix: string, ttl: number): Promise<Locks> =>
  openEtcdLocks(urlOf(servers), prefix, ttl, { timeout: 3000 })

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

interface Mishap {
  readonly what: string
  readonly begin: (leader: EtcdServer) => unknown
  readonly end: (leader: EtcdServer) => unknown
}

const mishaps: Mishap[] = [
  { what: 'killed', begin: (leader) => leader.kill(), end: (leader) => leader.start() },
  { what: 'cut off from the others', begin: (leader) => leader.isolate(), end: () => network.heal() },
]

test.each(mishaps)(
  'one holder at a time, and holders keep what they have, while leaders are $what',
  async ({ what, begin, end }) => {
    const clients = await Promise.all(Array.from({ length: 3 }, () => openLocks(`${what}/`, 30_000)))
    const steady = await clients[0]?.acquire('steady')
    const events: HistoryEvent[] = []
    let over = false
    const working = clients.map((locks, number) => compete(locks, `client-${number}`, events, () => over))
    for (let turn = 0; turn < 2; turn += 1) {
      const leader = await leaderOf(servers)
      await begin(leader)
      const before = holds(events)
      await eventually(() => holds(events) > before + 20, 'locks without the old leader', 60_000)
      await end(leader)
    }
    over = true
    await Promise.all(working)
    expect(steady?.signal.aborted).toBe(false)
    const { violations } = checkHistory(events, { fair: false })
    expect(violations.map(({ message }) => message)).toEqual([])
  },
)

test('who is left with a leader that is cut off stops before the others let somebody in', async () => {
  const leader = await leaderOf(servers)
  const [alone, others] = [
    await openEtcdLocks(leader.url, 'apart/', 3000),
    await openEtcdLocks(urlOf(servers.filter((server) => server !== leader)), 'apart/', 3000),
  ]
  const lease = await alone.acquire('report')
  const next = others.acquire('report', { wait: '60s' })
  await leader.isolate()
  onTestFinished(() => network.heal())
  const successor = await next
  expect(lease.held).toBe(false)
  expect(successor.fence).toBeGreaterThan(lease.fence)
  network.heal()
  await successor.release()
  await eventually(() => alone.acquire('report').catch(() => undefined), 'a leader that is back')
})

test('of claims that are under way when the leader dies none is held by nobody', async () => {
  const prefix = 'batch/'
  const driver = await openEtcd(urlOf(servers), prefix, { timeout: 15_000 })
  const told: { readonly claim: Claim; readonly status: ClaimStatus }[] = []
  const send = async (batch: number): Promise<void> => {
    const claims = Array.from({ length: 150 }, (_, number) => claimOf(`${batch}-${number}`, { ttlMs: 600_000 }))
    const unknown = (error: unknown): ClaimStatus[] => claims.map(() => ({ state: 'unknown', error }))
    const statuses = await driver.send(claims.map((one) => ({ op: 'claim', claim: one }))).catch(unknown)
    for (const [index, one] of claims.entries()) told.push({ claim: one, status: statuses.at(index) as ClaimStatus })
  }
  const leader = await leaderOf(servers)
  await send(8)
  const sending = Array.from({ length: 8 }, (_, batch) => send(batch))
  await leader.kill()
  await Promise.all(sending)
  await leader.start()
  expect(told).toHaveLength(9 * 150)
  for (const { claim: one, status } of told) {
    if (status.state === 'held') {
      expect(await renew(driver, one)).toMatchObject({ state: 'held', fence: status.fence })
    } else {
      expect(status.state).toBe('unknown')
    }
  }
  // What is not known is let go by its id, and then it is.
  const releases = told.map(({ claim: { key, id } }) => ({ op: 'release', key, id }) as const)
  expect((await driver.send(releases)).filter(({ state }) => state !== 'absent')).toEqual([])
  expect(await markersIn(leader, prefix)).toEqual([])
})

test('a leader that is stopped is left for another, and its holders keep what they have', async () => {
  const [locks, others] = [await openLocks('stopped/', 12_000), await openLocks('stopped/', 12_000)]
  const lease = await locks.acquire('report')
  const stopped = await leaderOf(servers)
  stopped.freeze()
  onTestFinished(() => stopped.thaw())
  let renewed = 0
  locks.on('renewed', () => (renewed += 1))
  await eventually(() => renewed >= 2, 'two renewals')
  expect(lease.signal.aborted).toBe(false)
  expect(await whoAnswers(others, 'report')).toBe('held')
  await lease.release()
  const next = await others.acquire('report', { wait: '60s' })
  expect(next.fence).toBeGreaterThan(lease.fence)
})

test('a dead holder is waited for no longer because the leader changes again and again, and one that lives keeps its lock', async () => {
  const prefix = 'changes/'
  const dying = etcd(urlOf(servers), { prefix })
  await claim(dying, claimOf('default/named:dead', { ttlMs: 3000 }))
  await claim(dying, claimOf('default/named:behind', { ttlMs: 3000 }))
  // Longer than a busy machine takes to elect a leader, several times.
  const holder = await openLocks(prefix, 12_000)
  const [alive, behind] = [await holder.acquire('alive'), holder.acquire('behind', { wait: '90s' })]
  const waiter = await openLocks(prefix, 3000)
  const changing = changeLeaders()
  const waiting = waiter.acquire('alive', { wait: '90s' })
  waiting.catch(() => {})
  await dying.close()
  const diedAt = performance.now()
  // Nobody is let in by the end of an etcd lease: each begins anew before it is over.
  await Promise.all([waiter.acquire('dead', { wait: '60s' }), behind])
  expect(performance.now() - diedAt).toBeLessThan(30_000)
  expect(changing.changes).toBeGreaterThan(1)
  await changing.stop()
  expect(alive.signal.aborted).toBe(false)
  await alive.release()
  expect((await waiting).fence).toBeGreaterThan(alive.fence)
})

/** Has another node lead every second, so that no lease of three seconds ever ends by itself. */
function changeLeaders(): { readonly changes: number; readonly stop: () => Promise<void> } {
  let changes = 0
  const end = new AbortController()
  const run = async (): Promise<void> => {
    while (!end.signal.aborted) {
      const leader = await leaderOf(servers)
      const next = servers.find((server) => server !== leader) ?? leader
      await leader.moveLeaderTo(next).then(
        () => (changes += 1),
        () => {},
      )
      await pause(1000)
    }
  }
  const running = run()
  const stop = async (): Promise<void> => {
    end.abort()
    await running
  }
  onTestFinished(stop)
  return {
    get changes() {
      return changes
    },
    stop,
  }
}

test('a store that wants a password is told one, and says so where it is not the right one', async () => {
  const server = await EtcdServer.start()
  onTestFinished(() => server.stop())
  await server.guard('leasehold/', 'ann:p@ss')
  const locks = await connect(`etcd://ann:p%40ss@127.0.0.1:${server.port}`)
  onTestFinished(() => locks.close())
  await locks.run('report', () => {})
  for (const url of [
    `etcd://ann:wrong@127.0.0.1:${server.port}`,
    server.url,
    `etcd://ann:p%40ss@127.0.0.1:${server.port}/elsewhere`,
  ]) {
    const driver = etcd(url)
    onTestFinished(() => driver.close())
    await expect(claim(driver, claimOf('a'))).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'auth' })
  }
})

test('a store is reached by TLS, and only if its certificate is one that is trusted', async () => {
  const folder = folderForTest('etcd-ca')
  const certificate = makePrivateCa(folder)
  const server = await EtcdServer.start({ certificate })
  onTestFinished(() => server.stop())
  const trusting = etcd(server.url, { tls: { ca: readFileSync(certificate.caFile) } })
  onTestFinished(() => trusting.close())
  expect(await claim(trusting, claimOf('a'))).toMatchObject({ state: 'held' })
  for (const url of [server.url, server.url.replace('etcds:', 'etcd:')]) {
    const driver = etcd(url, { timeout: 1000 })
    onTestFinished(() => driver.close())
    await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
  }
})

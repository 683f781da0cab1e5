/** Three nodes that are one store, of which one dies, stops, or cannot reach the others; and one that wants a password. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { etcd } from '../../src/drivers/etcd.ts'
import { connect, type Locks } from '../../src/index.ts'
import { checkHistory, type HistoryEvent } from '../../src/testing/index.ts'
import { claim, claimOf } from '../support/claims.ts'
import { EtcdServer, urlOf } from '../support/etcd-server.ts'
import { leaderOf, openEtcdLocks, whoAnswers } from '../support/etcd-store.ts'
import { eventually } from '../support/eventually.ts'
import { makePrivateCa } from '../support/private-ca.ts'

const servers = await EtcdServer.startCluster()
afterAll(() => Promise.all(servers.map((server) => server.stop())))

const openLocks = (prefix: string, ttl: number): Promise<Locks> =>
  openEtcdLocks(urlOf(servers), prefix, ttl, { timeout: 3000 })

/** Takes and leaves one lock, again and again, and writes down what it was told. */
async function compete(locks: Locks, client: string, events: HistoryEvent[], isOver: () => boolean): Promise<void> {
  for (let turn = 0; !isOver(); turn += 1) {
    const attempt = `${client}/${turn}`
    events.push({ type: 'acquire', at: performance.now(), client, attempt, key: 'shared', mode: 'exclusive' })
    const lease = await locks.acquire('shared', { wait: '3s' }).catch(() => undefined)
    if (lease === undefined) {
      events.push({ type: 'refused', at: performance.now(), attempt })
      continue
    }
    events.push({ type: 'granted', at: performance.now(), attempt, fence: lease.fence })
    lease.signal.addEventListener('abort', () => events.push({ type: 'lost', at: performance.now(), attempt }))
    await pause(5)
    events.push({ type: 'release', at: performance.now(), attempt })
    await lease.release().catch(() => {})
  }
}

const holds = (events: readonly HistoryEvent[]): number => events.filter(({ type }) => type === 'granted').length

test(
  'one holder at a time, and holders keep what they have, while leaders are killed',
  { timeout: 60_000 },
  async () => {
    const clients = await Promise.all(Array.from({ length: 3 }, () => openLocks('killed/', 8000)))
    const steady = await clients[0]?.acquire('steady')
    const events: HistoryEvent[] = []
    let over = false
    const working = clients.map((locks, number) => compete(locks, `client-${number}`, events, () => over))
    for (let turn = 0; turn < 2; turn += 1) {
      const dead = await leaderOf(servers)
      await dead.kill()
      const before = holds(events)
      await eventually(() => holds(events) > before + 20, 'locks without the old leader', 20_000)
      await dead.start()
    }
    over = true
    await Promise.all(working)
    expect(steady?.signal.aborted).toBe(false)
    const { violations } = checkHistory(events, { fair: false })
    expect(violations.map(({ message }) => message)).toEqual([])
  },
)

test(
  'a leader that is stopped is left for another, and its holders keep what they have',
  { timeout: 60_000 },
  async () => {
    const [locks, others] = [await openLocks('stopped/', 8000), await openLocks('stopped/', 8000)]
    const lease = await locks.acquire('report')
    const stopped = await leaderOf(servers)
    stopped.freeze()
    onTestFinished(() => stopped.thaw())
    // Two renewals later.
    await pause(6000)
    expect(lease.signal.aborted).toBe(false)
    expect(await whoAnswers(others, 'report')).toBe('held')
    await lease.release()
    const next = await others.acquire('report', { wait: '10s' })
    expect(next.fence).toBeGreaterThan(lease.fence)
  },
)

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
  const folder = mkdtempSync(path.join(tmpdir(), 'leasehold-etcd-ca-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
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

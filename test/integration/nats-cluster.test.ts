/** Three servers that keep one bucket, of which one dies, stands still, or is left alone. */
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import type { Claim, ClaimStatus } from '../../src/core/contract/driver.ts'
import { nats } from '../../src/drivers/nats/driver.ts'
import { JetStreamApi } from '../../src/drivers/nats/jetstream-api.ts'
import type { Locks } from '../../src/index.ts'
import { checkHistory, type HistoryEvent } from '../../src/testing/index.ts'
import { ask, claim, claimOf, release, renew, untilAnswered } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { NatsServer, natsUrlOf, replicatingNats } from '../support/nats-server.ts'
import { natsLeaderOf, openNats, openNatsLocks } from '../support/nats-store.ts'

const servers = await NatsServer.startCluster(3, { program: replicatingNats() })
afterAll(async () => void (await Promise.all(servers.map((server) => server.stop()))))

const url = natsUrlOf(servers)
/** Servers that have just come back may not make a bucket at once. */
const openLocks = (bucket: string, ttl: number): Promise<Locks> =>
  eventually(() => openNatsLocks(url, bucket, ttl, { replicas: 3, timeout: 3000 }).catch(() => undefined), 'a bucket')

test('a bucket is made once, though many open it at the same time', async () => {
  const drivers = Array.from({ length: 6 }, () => nats(url, { bucket: 'together', replicas: 3, syncAlways: true }))
  onTestFinished(async () => void (await Promise.all(drivers.map((driver) => driver.close()))))
  await Promise.all(drivers.map((driver) => driver.open()))
  const fences = await Promise.all(drivers.map((driver, index) => claim(driver, claimOf(`key-${index}`))))
  expect(fences.map(({ state }) => state)).toEqual(drivers.map(() => 'held'))
  expect((await servers[0]?.api('STREAM.INFO.KV_together'))?.config).toMatchObject({ num_replicas: 3 })
})

test('of writes that race for one sequence number one wins', async () => {
  await servers[0]?.api('STREAM.CREATE.KV_race', { name: 'KV_race', subjects: ['$KV.race.>'], num_replicas: 3 })
  const connections = await Promise.all(servers.flatMap((server) => [server, server].map((each) => connectedTo(each))))
  const apis = connections.map((connection) => new JetStreamApi(connection, 5000))
  const winners: number[] = []
  for (let [round, seq] = [0, 0]; round < 200; round += 1) {
    const headers = { 'Nats-Expected-Last-Subject-Sequence': String(seq) }
    const write = (api: JetStreamApi): Promise<number> => api.store('$KV.race.key', 'x', headers).catch(() => 0)
    const won = await Promise.all(apis.map(write))
    winners.push(won.filter((number) => number > 0).length)
    seq = won.reduce((last, number) => Math.max(last, number), seq)
  }
  // Debian's 2.9.10 lets up to six of six win: such servers are refused.
  expect(winners.filter((count) => count !== 1)).toEqual([])
})

test('the servers are asked to remove what is idle, and not before their clocks have passed its last fence', async () => {
  const driver = await openNats(url, 'removals', { replicas: 3 })
  const removedAfterSeconds = async (): Promise<number> => {
    const { message } =
      (await servers[0]?.api('STREAM.MSG.GET.KV_removals', { last_by_subj: '$KV.removals.key' })) ?? {}
    const [, ttl] = /Nats-TTL: (\d+)s/.exec(Buffer.from(message?.hdrs ?? '', 'base64').toString()) ?? []
    return Number(ttl ?? Infinity)
  }
  const held = claimOf('key')
  await claim(driver, held)
  expect(await removedAfterSeconds()).toBe(Infinity)
  await release(driver, held)
  expect(await removedAfterSeconds()).toBeGreaterThan(86_400)
  expect(await removedAfterSeconds()).toBeLessThan(2 * 86_400)
  const ahead = claimOf('key')
  await claim(driver, ahead)
  const { key, id, ttlMs } = ahead
  const threeDaysS = 3 * 86_400
  const fenceFloor = (Date.now() + threeDaysS * 1000) * 1000
  await ask(driver, { op: 'renew', key, id, ttlMs, fenceFloor })
  expect(await removedAfterSeconds()).toBe(Infinity)
  await release(driver, ahead)
  expect(await removedAfterSeconds()).toBeGreaterThan(threeDaysS)
  expect(await removedAfterSeconds()).toBeLessThan(threeDaysS + 2 * 86_400)
})

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

async function connectedTo({ port }: NatsServer): Promise<NatsConnection> {
  const connection = await connect({ servers: `127.0.0.1:${port}`, ignoreClusterUpdates: true })
  onTestFinished(() => connection.close())
  return connection
}

const holds = (events: readonly HistoryEvent[]): number => events.filter(({ type }) => type === 'granted').length

const mishaps = [
  { what: 'killed', begin: (leader: NatsServer) => leader.kill(), end: (leader: NatsServer) => leader.start() },
  {
    what: 'stopped',
    begin: async (leader: NatsServer) => leader.freeze(),
    end: async (leader: NatsServer) => leader.thaw(),
  },
]

test.each(mishaps)(
  'one holder at a time, and holders keep what they have, while leaders are $what',
  async ({ what, begin, end }) => {
    const clients = await Promise.all(Array.from({ length: 3 }, () => openLocks(what, 60_000)))
    const steady = await clients[0]?.acquire('steady')
    const events: HistoryEvent[] = []
    let over = false
    const working = clients.map((locks, number) => compete(locks, `client-${number}`, events, () => over))
    for (let turn = 0; turn < 2; turn += 1) {
      const leader = await natsLeaderOf(servers, what)
      await begin(leader)
      const before = holds(events)
      await eventually(() => holds(events) > before + 10, 'locks without the old leader', 60_000)
      await end(leader)
    }
    over = true
    await Promise.all(working)
    expect(steady?.signal.aborted).toBe(false)
    const { violations } = checkHistory(events, { fair: false })
    expect(violations.map(({ message }) => message)).toEqual([])
  },
)

test('one server of three alone grants and renews nothing: its callers learn so in time, and holders stop first', async () => {
  const [locks, others] = [await openLocks('alone', 4000), await openLocks('alone', 4000)]
  const lease = await locks.acquire('report')
  const leader = await natsLeaderOf(servers, 'alone')
  const rest = servers.filter((server) => server !== leader)
  await Promise.all(rest.map((server) => server.kill()))
  const askedAt = performance.now()
  await expect(others.tryAcquire('other')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  expect(performance.now() - askedAt).toBeLessThan(30_000)
  await eventually(() => lease.signal.aborted, 'the end of the lease')
  await Promise.all(rest.map((server) => server.start()))
  const next = await eventually(() => others.acquire('report', { wait: '5s' }).catch(() => undefined), 'the lock')
  expect(next.fence).toBeGreaterThan(lease.fence)
})

test('of claims that are under way when the leader dies none is held by nobody', async () => {
  const bucket = 'batch'
  const driver = await openNats(url, bucket, { replicas: 3, timeout: 15_000 })
  const told: { readonly claim: Claim; readonly status: ClaimStatus }[] = []
  const send = async (batch: number): Promise<void> => {
    const claims = Array.from({ length: 50 }, (_, number) => claimOf(`${batch}-${number}`, { ttlMs: 600_000 }))
    const unknown = (error: unknown): ClaimStatus[] => claims.map(() => ({ state: 'unknown', error }))
    const statuses = await driver.send(claims.map((one) => ({ op: 'claim', claim: one }))).catch(unknown)
    for (const [index, one] of claims.entries()) told.push({ claim: one, status: statuses.at(index) as ClaimStatus })
  }
  const leader = await natsLeaderOf(servers, bucket)
  await send(8)
  const sending = Array.from({ length: 8 }, (_, batch) => send(batch))
  await leader.kill()
  await Promise.all(sending)
  await leader.start()
  expect(told).toHaveLength(9 * 50)
  for (const { claim: one, status } of told) {
    if (status.state !== 'held') expect(status.state).toBe('unknown')
    else expect(await untilAnswered(() => renew(driver, one))).toMatchObject({ state: 'held', fence: status.fence })
  }
  // What is not known is let go by its id, and then it is.
  for (const { claim: one } of told)
    expect(await untilAnswered(() => release(driver, one))).toMatchObject({ state: 'absent' })
})

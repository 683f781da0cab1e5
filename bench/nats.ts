/**
 * NATS JetStream beside the lock that people write by hand: `create` of a KV bucket takes it, `delete` leaves it, and who finds it
 * taken watches the key. A hundred locks at once, one at a time, and one lock that ten wait for. The lock by hand has no lease, no queue and
 * no fence.
 */
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { Kvm, type KV } from '@nats-io/kv'
import { nats } from '../src/drivers/nats/driver.ts'
import { createLocks, type Locks } from '../src/index.ts'
import { NatsServer } from '../test/support/nats-server.ts'
import { interleave, median, report } from './report.ts'
import { pairsPerSecond } from './support/hundred-locks.ts'

const rounds = 9
/** Pairs of a round, one after another. */
const pairsARound = 200
const contenders = 10
/** How often each contender gets the lock in a round. */
const turns = 10

const server = await NatsServer.start()
const connections: NatsConnection[] = []
const connected = async (): Promise<NatsConnection> => {
  const connection = await connect({ servers: `127.0.0.1:${server.port}` })
  connections.push(connection)
  return connection
}
const clients = await Promise.all(
  Array.from({ length: contenders }, async () =>
    createLocks({ driver: nats(await connected(), { syncAlways: true }) }),
  ),
)
const [locks] = clients as [Locks, ...Locks[]]
const buckets = await Promise.all(
  Array.from({ length: contenders }, async () => new Kvm(await connected()).create('by-hand')),
)
const [byHand] = buckets as [KV, ...KV[]]

async function leaseholdPair(key: string): Promise<void> {
  const lease = await locks.acquire(key)
  await lease.release()
}

async function pairByHand(key: string): Promise<void> {
  const name = key.replaceAll('/', '-')
  await byHand.create(name, 'me')
  await byHand.delete(name)
}

/** Takes the lock with `create`, after it has seen its end. */
async function acquireByHand(kv: KV, name: string): Promise<void> {
  const isTaken = (): Promise<boolean> =>
    kv.create(name, 'me').then(
      () => false,
      () => true,
    )
  while (await isTaken()) {
    const changes = await kv.watch({ key: name })
    for await (const { operation } of changes) if (operation !== 'PUT') break
    changes.stop()
  }
}

/** The median time of a pair, one after another. */
async function pairMs(pair: (key: string) => Promise<void>): Promise<number> {
  const durations: number[] = []
  for (let turn = 0; turn < pairsARound; turn += 1) {
    const startedAt = performance.now()
    await pair('alone')
    durations.push(performance.now() - startedAt)
  }
  return median(durations)
}

/** Hand-overs a second of one lock that everybody wants, and that is held for no time. */
async function handOversPerSecond(acquire: (contender: number) => Promise<() => Promise<unknown>>): Promise<number> {
  const startedAt = performance.now()
  const contend = async (contender: number): Promise<void> => {
    for (let turn = 0; turn < turns; turn += 1) {
      const release = await acquire(contender)
      await release()
    }
  }
  await Promise.all(clients.map((_, contender) => contend(contender)))
  return (contenders * turns * 1000) / (performance.now() - startedAt)
}

const atOnce = {
  leasehold: () => pairsPerSecond(leaseholdPair),
  byHand: () => pairsPerSecond(pairByHand),
}
const oneAtATime = {
  leasehold: () => pairMs(leaseholdPair),
  byHand: () => pairMs(pairByHand),
}
const contended = {
  leasehold: () =>
    handOversPerSecond(async (contender) => {
      const lease = await (clients[contender] ?? locks).acquire('wanted')
      return () => lease.release()
    }),
  byHand: () =>
    handOversPerSecond(async (contender) => {
      const kv = buckets[contender] ?? byHand
      await acquireByHand(kv, 'wanted')
      return () => kv.delete('wanted')
    }),
}
await interleave(2, atOnce)
const together = await interleave(rounds, atOnce)
await interleave(2, oneAtATime)
const alone = await interleave(rounds, oneAtATime)
const crowded = await interleave(rounds, contended)
await Promise.all(clients.map((client) => client.close()))
await Promise.all(connections.map((connection) => connection.close()))
await server.stop()

const hundredths = (figure: number): number => Math.round(figure * 100) / 100
const peer = { name: 'KV by hand', kind: 'hand-written' } as const
report({
  name: 'nats',
  figures: {
    pairsPerSecond: Math.round(together.medians.leasehold),
    byHandPairsPerSecond: Math.round(together.medians.byHand),
    pairP50Ms: hundredths(alone.medians.leasehold),
    byHandPairP50Ms: hundredths(alone.medians.byHand),
    handOversPerSecond: Math.round(crowded.medians.leasehold),
    byHandHandOversPerSecond: Math.round(crowded.medians.byHand),
  },
  bars: {
    speedToByHandAtOnce: {
      title: 'NATS, 100 locks at once: pairs a second',
      peer: { ...peer, ours: together.medians.leasehold, theirs: together.medians.byHand, unit: 'pairs/s' },
      actual: hundredths(together.ratio('leasehold', 'byHand')),
      atLeast: 0.5,
    },
    speedToByHandOneAtATime: {
      title: 'NATS, one lock at a time: speed of a pair',
      peer: { ...peer, ours: alone.medians.leasehold, theirs: alone.medians.byHand, unit: 'ms' },
      actual: hundredths(alone.ratio('byHand', 'leasehold')),
      atLeast: 0.5,
    },
    timesByHandContended: {
      title: 'NATS, one lock that ten wait for: hand-overs a second',
      peer: { ...peer, ours: crowded.medians.leasehold, theirs: crowded.medians.byHand, unit: 'hand-overs/s' },
      actual: hundredths(crowded.ratio('leasehold', 'byHand')),
      atLeast: 1,
    },
  },
})

/** MongoDB: one lock at a time beside a bare findOneAndUpdate and deleteOne; fifty waiters beside polling every 10 ms. */
import { MongoClient } from 'mongodb'
import { monotonicMs } from '../src/core/machine/machine-clock.ts'
import { mongodb } from '../src/drivers/mongodb/driver.ts'
import { createLocks } from '../src/index.ts'
import { MongoReplicaSet, MongoServer } from '../test/support/mongo-server.ts'
import type { MongodbTurns, MongodbTurnsOrder, Turn } from './children/mongodb-turns.ts'
import { interleave, median, percentile, report, type Peer } from './report.ts'
import { nextMessage, startChild } from './support/child.ts'

const pairsPerRound = 40
const rounds = 31
/** Three thousand pairs each: until then Node goes on compiling, on the processor that the server needs. */
const roundsBefore = 75
const processes = 5
const callersPerProcess = 10
const holdMs = 1
const turnsMs = 6000
const writeConcern = { w: 'majority', journal: true } as const

// ---- one at a time, on a server alone

const server = await MongoServer.start()
// Under wine a server may hang for good: the bench must fail then, not wait for ever.
const client = new MongoClient(server.url, { socketTimeoutMS: 20_000 })
const locks = await createLocks({ driver: mongodb(client, { collection: 'latency' }) })
const bare = client.db().collection<{ _id: string }>('bare')

async function pairMs(pair: (name: string) => Promise<unknown>): Promise<number> {
  const took: number[] = []
  for (let index = 0; index < pairsPerRound; index += 1) {
    const startedAt = performance.now()
    await pair(`orders/${index}`)
    took.push(performance.now() - startedAt)
  }
  return percentile(took, 0.5)
}

async function leaseholdPair(name: string): Promise<void> {
  const lease = await locks.acquire(name)
  await lease.release()
}

/** What a lock without queue, fence or clock needs at least. */
async function barePair(name: string): Promise<void> {
  await bare.findOneAndUpdate({ _id: name }, { $set: { owner: name } }, { upsert: true, writeConcern })
  await bare.deleteOne({ _id: name }, { writeConcern })
}

const contenders = { leasehold: () => pairMs(leaseholdPair), bare: () => pairMs(barePair) }
await interleave(roundsBefore, contenders)
const latency = await interleave(rounds, contenders)
await locks.close()
await client.close()

// ---- fifty waiters, on a single server (polling) and on a replica set (change streams)

interface Contention {
  readonly acquisitions: number
  readonly commandsPerAcquisition: number
  readonly handOverP50Ms: number
  /** The most turns of any caller minus the fewest. */
  readonly unfairness: number
  readonly overlaps: number
  readonly fencesOutOfOrder: number
}

async function contend(url: string, kind: MongodbTurnsOrder['kind']): Promise<Contention> {
  const children = Array.from({ length: processes }, () => {
    const order: MongodbTurnsOrder = { url, kind, callers: callersPerProcess, turnsMs, holdMs }
    return startChild('mongodb-turns', JSON.stringify(order))
  })
  await Promise.all(children.map(nextMessage))
  for (const child of children) child.send({ startAt: monotonicMs() + 100 })
  const answers = (await Promise.all(children.map(nextMessage))) as MongodbTurns[]
  const commands = answers.reduce((sum, { commands: sent }) => sum + sent, 0)
  const perCaller = answers.flatMap(({ turns }) =>
    Array.from({ length: callersPerProcess }, (_, caller) => turns.filter((turn) => turn[2] === caller).length),
  )
  const turns = answers.flatMap((answer) => answer.turns).toSorted((a, b) => a[0] - b[0])
  const gaps = turns.slice(1).map((turn, index) => turn[0] - (turns[index] as Turn)[1])
  return {
    acquisitions: turns.length,
    commandsPerAcquisition: commands / turns.length,
    handOverP50Ms: percentile(gaps, 0.5),
    unfairness: Math.max(...perCaller) - Math.min(...perCaller),
    overlaps: gaps.filter((gap) => gap < 0).length,
    fencesOutOfOrder: turns.slice(1).filter((turn, index) => turn[3] <= (turns[index] as Turn)[3]).length,
  }
}

const alone: Contention[] = []
const polled: Contention[] = []
for (let round = 0; round < 2; round += 1) {
  polled.push(await contend(server.url, 'polling'))
  alone.push(await contend(server.url, 'leasehold'))
}
await server.stop()
const set = await MongoReplicaSet.start()
const streamed = [await contend(set.url, 'leasehold')]
const setPolled = [await contend(set.url, 'polling')]
await set.stop()

const middle = (runs: readonly Contention[], figure: keyof Contention): number => median(runs.map((run) => run[figure]))
const total = (runs: readonly Contention[], figure: keyof Contention): number =>
  runs.reduce((sum, run) => sum + run[figure], 0)
const ours = [...alone, ...streamed]

const title = 'MongoDB, 50 waiters in 5 processes'
const pollingPeer = (runs: readonly Contention[], polling: readonly Contention[]): Peer => ({
  name: 'polling every 10 ms',
  kind: 'hand-written',
  ours: middle(runs, 'commandsPerAcquisition'),
  theirs: middle(polling, 'commandsPerAcquisition'),
  unit: 'commands',
})

report({
  name: 'mongodb',
  figures: {
    leaseholdPairP50Ms: latency.medians.leasehold,
    barePairP50Ms: latency.medians.bare,
    callers: processes * callersPerProcess,
    aloneAcquisitions: total(alone, 'acquisitions'),
    aloneCommandsPerAcquisition: middle(alone, 'commandsPerAcquisition'),
    aloneHandOverP50Ms: middle(alone, 'handOverP50Ms'),
    pollingAcquisitions: total(polled, 'acquisitions'),
    pollingCommandsPerAcquisition: middle(polled, 'commandsPerAcquisition'),
    pollingHandOverP50Ms: middle(polled, 'handOverP50Ms'),
    pollingUnfairness: middle(polled, 'unfairness'),
    setAcquisitions: total(streamed, 'acquisitions'),
    setCommandsPerAcquisition: middle(streamed, 'commandsPerAcquisition'),
    setHandOverP50Ms: middle(streamed, 'handOverP50Ms'),
    setPollingCommandsPerAcquisition: middle(setPolled, 'commandsPerAcquisition'),
    setPollingHandOverP50Ms: middle(setPolled, 'handOverP50Ms'),
  },
  bars: {
    timeToBarePair: {
      title: 'MongoDB, one lock at a time: p50 of a pair',
      peer: {
        name: '`findOneAndUpdate` and `deleteOne`',
        kind: 'hand-written',
        ours: latency.medians.leasehold,
        theirs: latency.medians.bare,
        unit: 'ms',
      },
      actual: latency.ratio('leasehold', 'bare'),
      atMost: 1.25,
    },
    commandsToPollingAlone: {
      title: `${title}: commands an acquisition`,
      peer: pollingPeer(alone, polled),
      actual: middle(alone, 'commandsPerAcquisition') / middle(polled, 'commandsPerAcquisition'),
      atMost: 0.25,
    },
    commandsToPollingOnASet: {
      title: `${title}, replica set of three: commands an acquisition`,
      peer: pollingPeer(streamed, setPolled),
      actual: middle(streamed, 'commandsPerAcquisition') / middle(setPolled, 'commandsPerAcquisition'),
      atMost: 0.25,
    },
    // In a fair queue callers differ by at most the turns under way at the start and at the end.
    turnsMostLessFewest: {
      title: `${title}: most turns of a waiter less the fewest`,
      actual: Math.max(...ours.map(({ unfairness }) => unfairness)),
      atMost: 2,
    },
    overlaps: { title: `${title}: holds that overlap`, actual: total(ours, 'overlaps'), atMost: 0 },
    fencesOutOfOrder: { title: `${title}: fences out of order`, actual: total(ours, 'fencesOutOfOrder'), atMost: 0 },
  },
})

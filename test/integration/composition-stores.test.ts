/** Compositions of stores that are servers of their own, under the faults that servers have, in real time. */
import { afterAll } from 'vitest'
import { alone, behindServers, quorumOf, withThread, type Composition } from '../composition/compositions.ts'
import { compositionMatrix, type Cell } from '../composition/matrix.ts'
import { etcdStore, natsStore, postgresStore, redisStore } from '../composition/real-stores.ts'
import { sqliteStore } from '../composition/stores.ts'
import { realTime } from '../composition/time.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { isLong } from '../support/extent.ts'

const server = behindServers(1)
const twoHops = behindServers(2)
/** No shorter than the lease, as everywhere. */
const quorum = quorumOf('a quorum', { votesAfterMs: 3000 })

const mixed = quorumOf('a quorum with others', { votesAfterMs: 3000, otherStores: [sqliteStore, etcdStore] })
const hourMs = 3_600_000

const lossOf = (composition: Composition): readonly Cell[] => [
  { composition, fault: 'the store comes back empty', promised: 'fenced' },
  { composition, fault: 'the store is restored from an older copy', promised: 'fenced' },
]
const restartOf = (composition: Composition): Cell => ({
  composition,
  fault: 'the store is killed, and comes back with its data',
  promised: 'exclusive',
})
const partitionOf = (composition: Composition): Cell => ({
  composition,
  fault: 'the holder is cut off',
  promised: 'exclusive',
})
const cutOf = (composition: Composition): Cell => ({ composition, fault: 'connections end', promised: 'exclusive' })
const killOf = (composition: Composition): Cell => ({
  composition,
  fault: 'the process in between is killed, and comes back',
  promised: 'exclusive',
})

/** Cells that repeat for one more store, or one more hop, what others show. */
const inLongRuns = (...cells: readonly Cell[]): readonly Cell[] => (isLong ? cells : [])

compositionMatrix('redis', {
  make: redisStore,
  time: realTime,
  ttlMs: 1500,
  concurrent: true,
  cells: [
    ...lossOf(alone),
    restartOf(alone),
    cutOf(alone),
    partitionOf(alone),
    ...lossOf(server),
    cutOf(server),
    killOf(server),
    ...inLongRuns(killOf(twoHops)),
    ...lossOf(withThread),
    cutOf(withThread),
    { composition: quorum, fault: 'the store comes back empty', promised: 'exclusive' },
    { composition: quorum, fault: 'every store comes back empty', promised: 'exclusive' },
    { composition: quorum, fault: 'every store is restored from an older copy', promised: 'exclusive' },
    { composition: quorum, fault: 'connections end', promised: 'exclusive' },
    ...inLongRuns({ composition: mixed, fault: 'the store comes back empty', promised: 'exclusive' }),
    { composition: mixed, fault: 'every store comes back empty', promised: 'exclusive' },
    { composition: alone, fault: 'nothing', off: { clientMs: hourMs }, promised: 'kept' },
    { composition: alone, fault: 'nothing', off: { clientMs: -hourMs }, promised: 'kept' },
    { composition: quorum, fault: 'nothing', off: { clientMs: hourMs }, promised: 'kept' },
    { composition: quorum, fault: 'nothing', off: { clientMs: -hourMs }, promised: 'kept' },
  ],
})

compositionMatrix('sqlite', {
  make: sqliteStore,
  time: realTime,
  ttlMs: 1500,
  concurrent: true,
  cells: [
    ...lossOf(withThread),
    ...inLongRuns({ composition: quorum, fault: 'the store comes back empty', promised: 'exclusive' }),
    { composition: quorum, fault: 'every store comes back empty', promised: 'exclusive' },
    ...inLongRuns({ composition: quorum, fault: 'every store is restored from an older copy', promised: 'exclusive' }),
  ],
})

compositionMatrix('etcd', {
  make: etcdStore,
  time: realTime,
  ttlMs: 2000,
  concurrent: true,
  cells: [...lossOf(alone), restartOf(alone), partitionOf(alone), restartOf(server), killOf(server)],
})

compositionMatrix('nats', {
  make: natsStore,
  time: realTime,
  ttlMs: 2000,
  concurrent: true,
  cells: [...lossOf(alone), restartOf(alone), partitionOf(alone), restartOf(server), killOf(server)],
})

// What it has answered it has written: its processes may be killed.
const postgres = await PostgresServer.start({ settings: { synchronous_commit: 'on' } })
afterAll(() => postgres.destroy())

compositionMatrix('postgres', {
  make: postgresStore(postgres),
  time: realTime,
  ttlMs: 1500,
  cells: [
    ...lossOf(alone),
    restartOf(alone),
    cutOf(alone),
    partitionOf(alone),
    restartOf(server),
    killOf(server),
    ...inLongRuns(
      { composition: quorum, fault: 'the store comes back empty', promised: 'exclusive' },
      { composition: quorum, fault: 'every store comes back empty', promised: 'exclusive' },
    ),
  ],
})

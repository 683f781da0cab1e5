/** Every composition of the stores that need no server, under every fault, in time that stands still while calls are under way. */
import { alone, behindServers, quorumOf, type Composition } from '../composition/compositions.ts'
import { compositionMatrix, type Cell, type Promised } from '../composition/matrix.ts'
import { documentStore, memoryStore, sqliteStore } from '../composition/stores.ts'
import { steppedTime } from '../composition/time.ts'

const ttlMs = 3000
const hourMs = 3_600_000

const server = behindServers(1)
const twoHops = behindServers(2)
const alike = quorumOf('a quorum')
const mixed = quorumOf('a quorum with others', { otherStores: [memoryStore, documentStore] })
const served = quorumOf('a quorum of servers', { served: true })

/** Whose clock is wrong makes no difference: only durations are sent. */
function wrongClocks(composition: Composition, isServed: boolean): readonly Cell[] {
  return [hourMs, -hourMs].flatMap((offMs): Cell[] => [
    { composition, fault: 'nothing', off: { storeMs: offMs }, promised: 'kept' },
    { composition, fault: 'nothing', off: { clientMs: offMs }, promised: 'kept' },
    ...(isServed ? [{ composition, fault: 'nothing', off: { serverMs: offMs }, promised: 'kept' } as const] : []),
  ])
}

/** What a store alone cannot keep when it loses its data, nothing in front of it can. */
function lossOf(composition: Composition, promised: Promised, restores: boolean): readonly Cell[] {
  return [
    { composition, fault: 'the store comes back empty', promised },
    ...(restores ? [{ composition, fault: 'the store is restored from an older copy', promised } as const] : []),
  ]
}

function single(composition: Composition, restores: boolean): readonly Cell[] {
  return [
    { composition, fault: 'the holder is cut off', promised: 'exclusive' },
    ...lossOf(composition, 'fenced', restores),
    ...wrongClocks(composition, composition !== alone),
  ]
}

function between(composition: Composition, whenKilled: Promised): readonly Cell[] {
  return [
    { composition, fault: 'connections end', promised: 'kept' },
    { composition, fault: 'the process in between is killed, and comes back', promised: whenKilled },
  ]
}

function ofQuorum(composition: Composition, restores: boolean): readonly Cell[] {
  return [
    { composition, fault: 'the holder is cut off', promised: 'exclusive' },
    ...lossOf(composition, 'kept', restores),
    { composition, fault: 'every store comes back empty', promised: 'exclusive' },
    ...(restores
      ? [{ composition, fault: 'every store is restored from an older copy', promised: 'exclusive' } as const]
      : []),
    ...wrongClocks(composition, composition === served),
    // The one whose clock is wrong is the one that loses its data.
    { composition, fault: 'the store comes back empty', off: { storeMs: hourMs }, promised: 'kept' },
    { composition, fault: 'the store comes back empty', off: { storeMs: -hourMs }, promised: 'kept' },
  ]
}

compositionMatrix('memory', {
  make: memoryStore,
  time: steppedTime,
  ttlMs,
  cells: [
    ...single(alone, false),
    ...single(server, false),
    ...between(server, 'fenced'),
    ...single(twoHops, false),
    ...between(twoHops, 'fenced'),
    ...ofQuorum(alike, false),
    ...ofQuorum(mixed, false),
    ...ofQuorum(served, false),
    ...between(served, 'exclusive'),
  ],
})

compositionMatrix('documents', {
  make: documentStore,
  time: steppedTime,
  ttlMs,
  cells: [
    ...single(alone, true),
    ...single(server, true),
    ...between(server, 'kept'),
    ...single(twoHops, true),
    ...between(twoHops, 'kept'),
    ...ofQuorum(alike, true),
    ...ofQuorum(served, true),
    ...between(served, 'kept'),
  ],
})

compositionMatrix('sqlite', {
  make: sqliteStore,
  time: steppedTime,
  ttlMs,
  cells: [...single(alone, true), ...single(server, true), ...between(server, 'kept'), ...between(twoHops, 'kept')],
})

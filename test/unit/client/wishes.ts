import { clientOf } from '../../support/client-of.ts'
import { byteRange, LeaseholdError, named, type AcquireOptions, type Lease, type Locks } from '../../../src/index.ts'
import type { LoggedWish } from '../../../src/testing/history/event.ts'
import type { World } from '../../../src/testing/simulation/world.ts'
import type { Setting } from './setting.ts'
import type { SimulatedProcess } from '../../../src/testing/simulation/simulated-process.ts'
import type { Traces } from './traces.ts'

/** A lock to want, and how to ask for it. */
export interface Wish {
  readonly wanted: LoggedWish
  readonly ask: (options: AcquireOptions) => Promise<Lease>
}

/** Locks of every kind, each of its own key. */
export function anyWish({ world, locks, about }: Setting): Wish {
  if (about === 'hand-offs' || about === 'renewals') return deed(locks)
  if (about === 'permits') return berth(world, locks)
  const kind = about === 'reads' ? 2 : world.between(0, 5)
  if (kind === 0) {
    const start = world.between(0, 5)
    const range = { start, end: start + world.between(1, 4) }
    const scope = byteRange(7, range.start, range.end)
    return { wanted: { key: 'file', mode: 'exclusive', range }, ask: (options) => locks.acquire(scope, options) }
  }
  if (kind === 1 && world.chance(0.3)) return berth(world, locks)
  if (kind === 1) {
    const wanted: LoggedWish = { key: 'pool', mode: 'shared', limit: 2 }
    return { wanted, ask: (options) => locks.semaphore('pool', 2).acquire(options) }
  }
  if (kind <= 3) {
    const mode = world.chance(0.6) ? 'shared' : 'exclusive'
    const book = locks.readWrite('book')
    const ask: Wish['ask'] = (options) => (mode === 'shared' ? book.read(options) : book.write(options))
    return { wanted: { key: 'book', mode }, ask }
  }
  const wanted: LoggedWish = { key: 'orders', mode: 'exclusive', priority: world.chance(0.2) ? 5 : 0 }
  return { wanted, ask: (options) => locks.acquire(named('orders'), options) }
}

/** A semaphore whose number of permits is being changed: while somebody has one, the other number is refused. */
function berth(world: World, locks: Locks): Wish {
  const limit = world.chance(0.7) ? 2 : 3
  const wanted: LoggedWish = { key: 'berth', mode: 'shared', limit }
  return { wanted, ask: (options) => locks.semaphore('berth', limit).acquire(options).catch(asTimeout) }
}

function asTimeout(error: unknown): never {
  if ((error as LeaseholdError).code !== 'SCOPE_MISMATCH') throw error
  throw new LeaseholdError('TIMEOUT', 'The others have another number of permits.')
}

/** One lock for all: some worker always waits for it, and notices if it is free too early. */
function deed(locks: Locks): Wish {
  const key = 'deed'
  return { wanted: { key, mode: 'exclusive' }, ask: (options) => locks.acquire(key, options) }
}

export function anyOptions({ world, process, traces, about, locks }: Setting): AcquireOptions {
  return {
    ttl: world.between(500, 1500),
    ...(world.chance(0.2) && { heartbeat: 'manual' }),
    ...(world.chance(0.4) && { wait: world.between(10, 1500) }),
    ...(world.chance(0.1) && clientOf(locks).driver.supports.maxHold && { maxHold: world.between(300, 2000) }),
    ...(world.chance(0.1) && { grace: world.between(100, 1000) }),
    ...(world.chance(0.1) && { progress: world.between(50, 600) }),
    ...(about !== 'renewals' && world.chance(0.1) && { signal: abortedSoon(world, process, traces) }),
  }
}

/** A signal that aborts before, during or after the call that it is given to. */
function abortedSoon(world: World, process: SimulatedProcess, traces: Traces): AbortSignal {
  const controller = new AbortController()
  process.environment.timer(world.between(0, 600), () => controller.abort())
  traces.lend(controller.signal)
  return controller.signal
}

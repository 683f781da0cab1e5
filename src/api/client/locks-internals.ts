import { LeaseholdError } from '../../core/errors.ts'
import type { Client } from './client.ts'
import type { Locks } from '../locks.ts'
import type { AcquireOptions, AcquireTerms } from '../options.ts'

/** What the package's own parts need of a `Locks` that its users neither see nor implement. */
export interface LocksInternals {
  readonly client: Client
  /** The options of one acquisition and the defaults, checked. */
  terms(options: AcquireOptions): AcquireTerms
}

const internals = new WeakMap<Locks, LocksInternals>()

/** Called once by whoever makes a `Locks`. */
export function keepInternals(locks: Locks, inner: LocksInternals): void {
  internals.set(locks, inner)
}

/** The inner parts of the `locks` that `caller` was given. Test doubles have none, nor do those of another copy of the package. */
export function internalsOf(locks: Locks, caller: string): LocksInternals {
  const inner = internals.get(locks)
  if (inner !== undefined) return inner
  throw new LeaseholdError(
    'INVALID',
    `${caller} needs locks of connect or createLocks, and of the same copy of leasehold. ` +
      `In a test, pass those of connect('memory:') instead of a double; else see npm ls leasehold.`,
  )
}

import { newOwner, ownerName, type Owner } from '../../core/machine/owner.ts'
import type { SightClock, SqliteEnvironment } from './sqlite-environment.ts'

/** Where one driver stands: whom it writes as, what its clocks say, whom it can see. */
export interface SelfIdentity {
  readonly self: Owner
  /** `self` as stored with claims, and the name of the driver's inbox. */
  readonly name: string
  /** The store's time, in whole milliseconds. */
  now(): number
  /** Milliseconds since 1970. */
  wall(): number
  /** By what the first sight of others' claims is kept, beside the clock. */
  readonly sightClock: SightClock | undefined
  /** Whether the process behind a stamp has surely ended. */
  isGone(owner: Owner): boolean
}

export function selfIdentityIn(surroundings: SqliteEnvironment): SelfIdentity {
  const { boot, clock } = surroundings
  const self = newOwner(boot, surroundings.process)
  return {
    self,
    name: ownerName(self),
    now: () => Math.floor(clock.now()),
    wall: () => clock.wall(),
    sightClock: surroundings.sightClock,
    isGone: (owner) => surroundings.isGone(owner, self),
  }
}

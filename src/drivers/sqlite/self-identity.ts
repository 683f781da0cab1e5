import { newStamp, stampText, type LivenessStamp } from '../../core/machine/liveness.ts'
import type { SightClock, SqliteEnvironment } from './sqlite-environment.ts'

/** Where one driver stands: whom it writes as, what its clocks say, whom it can see. */
export interface SelfIdentity {
  readonly self: LivenessStamp
  /** `self` as stored with claims, and the name of the driver's inbox. */
  readonly name: string
  /** The store's time, in whole milliseconds. */
  now(): number
  /** Milliseconds since 1970. */
  wall(): number
  /** By what the first sight of others' claims is kept, beside the clock. */
  readonly sightClock: SightClock | undefined
  /** Whether the process behind a stamp has surely ended. */
  isGone(stamp: LivenessStamp): boolean
}

export function selfIdentityIn(surroundings: SqliteEnvironment): SelfIdentity {
  const { boot, clock } = surroundings
  const self = newStamp(boot, surroundings.process)
  return {
    self,
    name: stampText(self),
    now: () => Math.floor(clock.now()),
    wall: () => clock.wall(),
    sightClock: surroundings.sightClock,
    isGone: (stamp) => surroundings.isGone(stamp, self),
  }
}

import { newStamp, stampText, type LivenessStamp } from '../../core/machine/liveness.ts'
import type { SightClock, SqliteEnvironment } from './sqlite-environment.ts'

/** Where one driver stands: whom it writes as, what its clocks say, whom it can see. */
export interface SelfIdentity {
  readonly stamp: LivenessStamp
  /** `stamp` as stored with claims, and the name of the driver's inbox. */
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

export function selfIdentityIn(environment: SqliteEnvironment): SelfIdentity {
  const { boot, clock } = environment
  const stamp = newStamp(boot, environment.process)
  return {
    stamp,
    name: stampText(stamp),
    now: () => Math.floor(clock.now()),
    wall: () => clock.wall(),
    sightClock: environment.sightClock,
    isGone: (other) => environment.isGone(other, stamp),
  }
}

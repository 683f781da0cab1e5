import { newStamp, stampText, type LivenessStamp } from '../../core/machine/liveness.ts'
import type { SightClock, SqliteEnvironment } from './sqlite-environment.ts'

/** One driver as others see it: its stamp, its clocks, and which processes it can see. */
export interface SelfIdentity {
  readonly stamp: LivenessStamp
  /** `stamp` as stored with claims, and the name of the driver's inbox. */
  readonly name: string
  /** The store's time, in whole milliseconds. */
  now(): number
  /** Milliseconds since 1970. */
  wall(): number
  /** A second clock for the sightings of other boots' claims. */
  readonly sightClock: SightClock | undefined
  /** Whether the process behind a stamp has surely ended. */
  isGone(stamp: LivenessStamp): boolean
}

/** A new identity in this environment. */
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

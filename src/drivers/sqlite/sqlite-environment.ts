import { randomBytes } from 'node:crypto'
import { statfsSync } from 'node:fs'
import { uptime } from 'node:os'
import path from 'node:path'
import { isClockShared, monotonicMs } from '../../core/machine/machine-clock.ts'
import { watchFile, type WatchFile } from './inbox.ts'
import { bootIdentity } from '../../core/machine/boot.ts'
import type { SqliteBinding } from './database.ts'
import {
  cachedProcessCheck,
  ownProcess,
  type LivenessStamp,
  type ProcessIdentity,
} from '../../core/machine/liveness.ts'

/** The store's time. `now` is shared by all processes of a boot and never goes back; `wall` is milliseconds since 1970. */
export interface SqliteClock {
  now(): number
  wall(): number
}

/**
 * A coarse clock that processes share although each reads a monotonic clock of its own. Sightings of other processes' claims are also
 * kept by this clock, so that processes that live only for a moment get their turn too.
 */
export interface SightClock {
  /** Names the run of the clock. Processes that read the same name differ by `marginMs` at most. */
  name(): string
  now(): number
  readonly marginMs: number
}

/** All that the driver takes from the machine, so that a test can play reboots, containers and second machines. */
export interface SqliteEnvironment {
  readonly clock: SqliteClock
  /** Names the run of `clock`: see `bootIdentity`. */
  readonly boot: string
  /** Absent: other processes of the boot share `clock` itself. */
  readonly sightClock?: SightClock | undefined
  readonly process: ProcessIdentity
  isGone(stamp: LivenessStamp, observer: LivenessStamp): boolean
  /** The type of the file system, as of statfs(2). */
  fileSystemType(file: string): number
  readonly watch: WatchFile
  /** Up to this many holders of a key are read as a list, more are searched. Absent: 8. For tests of the search. */
  readonly fewHoldersMax?: number | undefined
  /** Absent: the first at hand. */
  readonly binding?: SqliteBinding | undefined
}

/**
 * Names a clock that only this thread reads: claims of others are then treated as those of another boot, which is slow and safe.
 */
const ownClock = randomBytes(8).toString('hex')

const sightsRoundedToMs = 10_000

/** The uptime, in whole seconds on Bun and Deno. A container's may be shifted, by less than the rounding under the same name. */
const uptimeClock: SightClock = {
  name: () => `up-${Math.round((Date.now() - uptime() * 1000) / sightsRoundedToMs)}`,
  now: () => uptime() * 1000,
  marginMs: sightsRoundedToMs + 1000,
}

/** The environment of this machine. @internal */
export function systemSqliteEnvironment(): SqliteEnvironment {
  return {
    clock: { now: monotonicMs, wall: () => Date.now() },
    boot: isClockShared ? bootIdentity() : `${bootIdentity()}+${ownClock}`,
    sightClock: isClockShared ? undefined : uptimeClock,
    process: ownProcess(),
    isGone: cachedProcessCheck(),
    fileSystemType: (file) => statfsSync(path.dirname(file)).type,
    watch: watchFile,
  }
}

/** The same for a driver of others' claims: its own stamp says nothing of their lives, but it relies on other stamps. @internal */
export function forOthers(environment: SqliteEnvironment): SqliteEnvironment {
  const { process } = environment
  return {
    ...environment,
    process: { ...process, namespace: '' },
    isGone: (stamp, observer) => environment.isGone(stamp, { ...observer, namespace: process.namespace }),
  }
}

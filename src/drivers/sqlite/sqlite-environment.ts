import { randomBytes } from 'node:crypto'
import { statfsSync } from 'node:fs'
import path from 'node:path'
import { isClockShared, monotonicMs } from '../../core/time/environment.ts'
import { watchFile, type WatchFile } from './inbox.ts'
import { bootIdentity } from '../../core/machine/boot.ts'
import type { Binding } from './database.ts'
import { isGoneByGlance, ownProcess } from '../../core/machine/liveness.ts'
import type { Owner, ProcessIdentity } from '../../core/machine/owner.ts'

/** The store's time. `now` is shared by all processes of a boot and never goes back; `wall` is milliseconds since 1970. */
export interface SqliteClock {
  now(): number
  wall(): number
}

/** All that the driver takes from the machine, so that a test can play reboots, containers and second machines. */
export interface SqliteEnvironment {
  readonly clock: SqliteClock
  /** Names the run of `clock`: see `bootIdentity`. */
  readonly boot: string
  readonly process: ProcessIdentity
  isGone(owner: Owner, observer: Owner): boolean
  /** The type of the file system, as of statfs(2). */
  fileSystemType(file: string): number
  readonly watch: WatchFile
  /** Absent: the first at hand. */
  readonly binding?: Binding | undefined
}

/**
 * Names a clock that only this thread reads: claims of others then look as those of another boot do, which is slow and safe.
 */
const ownClock = randomBytes(8).toString('hex')

/** The real ones. @internal */
export function systemSqliteEnvironment(): SqliteEnvironment {
  return {
    clock: { now: monotonicMs, wall: () => Date.now() },
    boot: isClockShared ? bootIdentity() : `${bootIdentity()}+${ownClock}`,
    process: ownProcess(),
    isGone: isGoneByGlance(),
    fileSystemType: (file) => statfsSync(path.dirname(file)).type,
    watch: watchFile,
  }
}

/** The same, for a driver whose stamp is to prove nothing to others, though it goes by theirs. @internal */
export function forOthers(surroundings: SqliteEnvironment): SqliteEnvironment {
  const { process } = surroundings
  return {
    ...surroundings,
    process: { ...process, namespace: '' },
    isGone: (owner, observer) => surroundings.isGone(owner, { ...observer, namespace: process.namespace }),
  }
}

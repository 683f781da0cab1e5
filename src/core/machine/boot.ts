import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { uptime } from 'node:os'
import { monotonicMs } from '../time/environment.ts'
import { clockOffset } from './time-namespace.ts'

/** What may stand in a boot identity: it becomes part of a file name. */
const unwanted = /[^A-Za-z0-9.+-]/g

/** Boot times guessed from two clocks that do not tick together differ by less than this. */
const guessRoundedToMs = 60_000

/** Far less than a time namespace moves a clock by, and far more than it takes to read two of them. */
const clockRoundedToMs = 20

/**
 * Names the run of the system clock that this process lives in: two processes with the same identity read the same
 * monotonic clock. A wrong guess only makes leases look foreign, and those are given their full ttl.
 */
export function bootIdentity(platform: NodeJS.Platform = process.platform): string {
  try {
    if (platform === 'linux') return linuxBoot(readText('/proc/sys/kernel/random/boot_id'), clockOffset('monotonic'))
    if (platform === 'darwin')
      return clean(execFileSync('sysctl', ['-n', 'kern.bootsessionuuid'], { encoding: 'utf8' }))
  } catch {
    // Neither is certain to be there: fall through to the guess.
  }
  if (platform === 'linux') return guessedClock(Date.now(), monotonicMs())
  return guessedBoot(Date.now(), uptime())
}

/** The boot id, marked with the offset of the monotonic clock where this process lives in a time namespace. */
export function linuxBoot(bootId: string, offset: string): string {
  return clean(offset === '' ? bootId : `${bootId.trim()}+${offset}`)
}

/** For systems that do not name their boots: the time of the last one, to the minute. */
export function guessedBoot(wallMs: number, uptimeSeconds: number): string {
  return `at-${Math.round((wallMs - uptimeSeconds * 1000) / guessRoundedToMs)}`
}

/**
 * For Linux without /proc, which Deno shows with `--allow-all` only. A time namespace moves the monotonic clock and never the
 * wall clock, so that the lead of the second tells the clocks of containers apart. It changes with a sleep, and when somebody
 * sets the wall clock: processes from before and after then look foreign to each other.
 */
export function guessedClock(wallMs: number, monotonic: number): string {
  return `clock-${Math.round((wallMs - monotonic) / clockRoundedToMs)}`
}

function readText(file: string): string {
  return readFileSync(file, 'utf8')
}

function clean(text: string): string {
  return text.trim().replaceAll(unwanted, '-')
}

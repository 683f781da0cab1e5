import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { uptime } from 'node:os'
import { clockOffset } from './time-namespace.ts'

/** What may stand in a boot identity: it becomes part of a file name. */
const unwanted = /[^A-Za-z0-9.+-]/g

/** Boot times guessed from two clocks that do not tick together differ by less than this. */
const guessRoundedToMs = 60_000

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

function readText(file: string): string {
  return readFileSync(file, 'utf8')
}

function clean(text: string): string {
  return text.trim().replaceAll(unwanted, '-')
}

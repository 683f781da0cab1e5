import { execFileSync } from 'node:child_process'
import { readFileSync, readlinkSync } from 'node:fs'
import { uptime, hostname } from 'node:os'
import { monotonicMs } from './machine-clock.ts'
import { createHash } from 'node:crypto'

/** Characters that a boot identity must not have: it becomes part of a file name. */
const unwanted = /[^A-Za-z0-9.+-]/g

/** Boot times guessed from two clocks that do not tick together differ by less than this. */
const guessRoundedToMs = 60_000

/** Far less than a time namespace moves a clock by, and far more than it takes to read two of them. */
const clockRoundedToMs = 20

/**
 * Names the boot, and so the monotonic clock, of this process: two processes with the same identity read the same clock. A
 * wrong guess only makes leases look foreign, and a foreign lease is given its full ttl.
 */
export function bootIdentity(platform: NodeJS.Platform = process.platform): string {
  try {
    if (platform === 'linux') return linuxBoot(readText('/proc/sys/kernel/random/boot_id'), clockOffset('monotonic'))
    if (platform === 'darwin')
      return clean(execFileSync('sysctl', ['-n', 'kern.bootsessionuuid'], { encoding: 'utf8' }))
  } catch {
    // Not readable here: fall through to the guess.
  }
  if (platform === 'linux') return guessedClock(Date.now(), monotonicMs())
  return guessedBoot(Date.now(), uptime())
}

/** The boot id, marked with the offset of the monotonic clock where this process lives in a time namespace. */
export function linuxBoot(bootId: string, offset: string): string {
  return clean(offset === '' ? bootId : `${bootId.trim()}+${offset}`)
}

/** For systems that do not name their boots: the time of the last boot, to the minute. */
export function guessedBoot(wallMs: number, uptimeSeconds: number): string {
  return `at-${Math.round((wallMs - uptimeSeconds * 1000) / guessRoundedToMs)}`
}

/**
 * For Linux without /proc, which Deno shows with `--allow-all` only. A time namespace moves the monotonic clock and never
 * the wall clock, so the lead of the wall clock tells the clocks of containers apart. The lead changes with a sleep, and
 * when the wall clock is set: processes from before and after then look foreign to each other.
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

/** A clock of Linux that a time namespace may move. */
export type MovedClock = 'monotonic' | 'boottime'

/** The first time namespace of every boot. */
const initialNamespace = 'time:[4026531834]'

/**
 * By how much the time namespace of this process moves a clock, as text. Empty if it does not, and on kernels before 5.6,
 * which have no time namespaces. Two processes with the same text read the same clock. Throws if /proc is not readable.
 */
export function clockOffset(clock: MovedClock): string {
  try {
    const own = readlinkSync('/proc/self/ns/time')
    // The file has the offsets of our children, which may have another namespace.
    if (own !== readlinkSync('/proc/self/ns/time_for_children')) return own === initialNamespace ? '' : digitsOf(own)
    return parseOffset(readFileSync('/proc/self/timens_offsets', 'utf8'), clock)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

/** The offset in the text of /proc/PID/timens_offsets. */
export function parseOffset(text: string, clock: MovedClock): string {
  const line = text.split('\n').find((row) => row.startsWith(clock)) ?? ''
  const [, seconds = '0', nanoseconds = '0'] = line.split(/\s+/)
  return Number(seconds) === 0 && Number(nanoseconds) === 0 ? '' : `${seconds}.${nanoseconds}`
}

function digitsOf(text: string): string {
  return text.replaceAll(/\D/g, '')
}

/**
 * Names the machine that this process runs on, in characters that fit into a file name: the same after a restart of the
 * machine, different on a copy of its disk that has another machine id or host name.
 */
export function machineIdentity(platform: NodeJS.Platform = process.platform, host: string = hostname()): string {
  return createHash('sha256')
    .update(`${machineId(platform)}\n${host}`)
    .digest('hex')
    .slice(0, 16)
}

/** The machine's id. Empty if the system has none: then the host name alone tells machines apart. */
function machineId(platform: NodeJS.Platform): string {
  try {
    if (platform === 'linux') return readFileSync('/etc/machine-id', 'utf8').trim()
    if (platform === 'darwin') return execFileSync('sysctl', ['-n', 'kern.uuid'], { encoding: 'utf8' }).trim()
  } catch {
    // A container may have no such file.
  }
  return ''
}

import { readFileSync, readlinkSync } from 'node:fs'

/** A clock of Linux that a time namespace may move. */
export type MovedClock = 'monotonic' | 'boottime'

/** The first time namespace of every boot. */
const initialNamespace = 'time:[4026531834]'

/**
 * How far this process's time namespace moves a clock, as text. Empty where it does not, and on kernels before 5.6, which
 * have no time namespaces. Two processes with the same text read the same clock. Throws where /proc may not be read.
 */
export function clockOffset(clock: MovedClock): string {
  try {
    const own = readlinkSync('/proc/self/ns/time')
    // The offsets are those of our children, which may have been given another namespace.
    if (own !== readlinkSync('/proc/self/ns/time_for_children')) return own === initialNamespace ? '' : digitsOf(own)
    return parseOffset(readFileSync('/proc/self/timens_offsets', 'utf8'), clock)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

/** The offset in the text of /proc/PID/timens_offsets. */
export function parseOffset(text: string, clock: MovedClock): string {
  const line = text.split('\n').find((each) => each.startsWith(clock)) ?? ''
  const [, seconds = '0', nanoseconds = '0'] = line.split(/\s+/)
  return Number(seconds) === 0 && Number(nanoseconds) === 0 ? '' : `${seconds}.${nanoseconds}`
}

function digitsOf(text: string): string {
  return text.replaceAll(/\D/g, '')
}

import { formatDuration } from '../../core/time/duration.ts'
import type { ClaimInfo } from '../../index.ts'
import { printable } from '../../core/printable.ts'

/** A runner in words: `runner_… (alice running make, host build-7, pid 4711)`. */
export function runnerText({ id, host, pid, metadata }: ClaimInfo['runner']): string {
  const user = typeof metadata?.['user'] === 'string' ? metadata['user'] : undefined
  const command = typeof metadata?.['command'] === 'string' ? `running ${metadata['command']}` : undefined
  const person = [user, command].filter((part) => part !== undefined).join(' ')
  return printable(`${id} (${person === '' ? '' : `${person}, `}host ${host}, pid ${pid})`)
}

/** A start time and how long ago it was: `20:43:12 (3.2 s)`, with the date if that was not today. */
export function describeSince(since: Date, now: Date): string {
  return `${clockTime(since, now)} (${formatDuration(Math.max(0, now.getTime() - since.getTime()))})`
}

/** A time of day, with the date if that is not today. */
export function clockTime(time: Date, now: Date): string {
  const day = `${time.getFullYear()}-${twoDigits(time.getMonth() + 1)}-${twoDigits(time.getDate())}`
  const clock = [time.getHours(), time.getMinutes(), time.getSeconds()].map(twoDigits).join(':')
  return time.toDateString() === now.toDateString() ? clock : `${day} ${clock}`
}

function twoDigits(number: number): string {
  return String(number).padStart(2, '0')
}

import { ownersOf } from '../../core/contract/owner-name.ts'
import { formatDuration } from '../../core/time/duration.ts'
import type { ClaimInfo } from '../../index.ts'
import { printable } from '../../core/printable.ts'

type Runner = ClaimInfo['runner']

/** A runner in words: `runner_… (alice running make, host build-7, pid 4711)`. */
export function runnerText({ id, host, pid, metadata }: Pick<Runner, 'id' | 'host' | 'pid' | 'metadata'>): string {
  const user = typeof metadata?.['user'] === 'string' ? metadata['user'] : undefined
  const command = typeof metadata?.['command'] === 'string' ? `running ${metadata['command']}` : undefined
  const person = [user, command].filter((part) => part !== undefined).join(' ')
  return printable(`${id} (${person === '' ? '' : `${person}, `}host ${host}, pid ${pid})`)
}

/** Who it is, in a few words: `billing (alice), owner nightly, host build-7, pid 4711`. */
export function whoText(runner: Runner): string {
  const { host, pid, metadata } = runner
  const service = serviceOf(runner)
  const user = textOf(metadata?.['user'])
  const owner = ownerText(runner.owner)
  const name = service === undefined ? user : user === undefined ? service : `${service} (${user})`
  const parts = [name, owner && `owner ${owner}`, `host ${host}`, `pid ${pid}`]
  return printable(parts.filter((part) => part !== undefined).join(', '))
}

/** The service that a runner says it is: its metadata's `service`, else the command that `leasehold run` runs. */
export function serviceOf({ metadata }: Pick<Runner, 'metadata'>): string | undefined {
  return textOf(metadata?.['service']) ?? textOf(metadata?.['command'])
}

/** The outermost owner's name, unless it is an id that `run` made up. */
export function ownerText(owner: string | undefined): string | undefined {
  const [outermost] = ownersOf(owner)
  if (outermost === undefined || /^[0-9a-f]{32}$/.test(outermost)) return undefined
  try {
    return decodeURIComponent(outermost)
  } catch {
    return outermost
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
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

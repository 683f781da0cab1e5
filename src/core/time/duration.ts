import { LeaseholdError } from '../errors.ts'

type Unit = 'ms' | 's' | 'm' | 'h' | 'd'
type Part = `${number}${Unit}`

/**
 * Milliseconds as a number, or text such as `'500ms'`, `'30s'`, `'5m'`, `'1h'`, `'2d'`, `'1m30s'`. Text that comes from
 * outside, such as an environment variable, is checked by {@link parseDuration}.
 */
export type Duration = number | Part | `${Part}${Part}` | `${Part}${Part}${Part}`

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const wholeText = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/
const onePart = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g

/** Whole milliseconds out of a duration. `name` is the option it came from, for the error. @internal */
export function durationMs(duration: Duration, name: string): number {
  const given = typeof duration === 'number' ? duration : parse(duration)
  const milliseconds = given === undefined || given < 0 ? Number.NaN : Math.round(given)
  // Stores add durations to their clocks, and some count in whole numbers only.
  if (!Number.isSafeInteger(milliseconds)) {
    throw new LeaseholdError(
      'INVALID',
      `${name} is ${shown(duration)}. Use milliseconds, or text such as '500ms', '30s', '5m' or '1h'.`,
    )
  }
  return milliseconds
}

/**
 * The milliseconds of a text from outside, e.g. an environment variable: `'30s'` is 30000. Throws INVALID if the text is
 * missing or no duration.
 *
 * @example
 * ```ts
 * import { connect, parseDuration } from 'leasehold'
 *
 * const ttl = parseDuration(process.env['LOCK_TTL'] ?? '30s')
 * await using locks = await connect('memory:', { defaults: { ttl } })
 * ```
 */
export function parseDuration(text: string | undefined, name = 'The duration'): number {
  return durationMs(text as Duration, name)
}

/** Whether a text is a duration, with its unit. @internal */
export function isDuration(text: string): text is Extract<Duration, string> {
  return parse(text) !== undefined
}

/** The milliseconds of a duration with its unit: not rounded, and perhaps beyond safe integers. @internal */
export function unroundedMs(text: Extract<Duration, string>): number {
  return parse(text) ?? Number.NaN
}

/** The duration for an error. Not as JSON, which has no Infinity and no NaN. */
function shown(duration: unknown): string {
  return typeof duration === 'string' ? JSON.stringify(duration) : String(duration)
}

/** Like {@link durationMs}, and at least one millisecond. @internal */
export function positiveMs(duration: Duration, name: string): number {
  const milliseconds = durationMs(duration, name)
  if (milliseconds < 1) throw new LeaseholdError('INVALID', `${name} must be at least 1 ms.`)
  return milliseconds
}

/** The longest delay that `setTimeout` keeps, about 24 days: a longer one would fire at once. @internal */
export const timerMaxMs = 2_147_483_647

/** Like {@link positiveMs}, for an option that a timer counts. @internal */
export function timerMs(duration: Duration, name: string): number {
  const milliseconds = positiveMs(duration, name)
  if (milliseconds <= timerMaxMs) return milliseconds
  throw new LeaseholdError('INVALID', `${name} is ${milliseconds} ms. Timers take ${timerMaxMs} ms at most, 24 days.`)
}

/** Durations parsed before: a program uses the same few with every lock. */
const known = new Map<string, number>()
const knownMax = 100

function parse(text: string): number | undefined {
  const before = known.get(text)
  if (before !== undefined) return before
  if (typeof text !== 'string' || text.length > 64 || !wholeText.test(text)) return undefined
  let sum = 0
  for (const [, amount, unit] of text.matchAll(onePart)) sum += Number(amount) * (unitMs[unit as string] as number)
  if (known.size >= knownMax) known.clear()
  known.set(text, sum)
  return sum
}

/** For people: `850 ms`, `12.3 s`, `4 min 5 s`, `2 h 3 min`. @internal */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`
  if (milliseconds < 60_000) return `${Math.floor(milliseconds / 100) / 10} s`
  const seconds = Math.floor(milliseconds / 1000)
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`
}

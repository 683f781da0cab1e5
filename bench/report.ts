/** What every bench and proof shares: fair comparison, order statistics, and a result that reads well and parses. */

/** What a ratio compares Leasehold with, and the two figures behind it. */
export interface Peer {
  name: string
  /** A `library` that people use instead, or the few bare calls that they would write themselves. */
  kind: 'library' | 'hand-written'
  ours: number
  theirs: number
  /** Of both figures: `pairs/s`, `ms`. */
  unit: string
}

/** What docs/benchmarks.md shows of a figure. Proofs are not shown there. */
interface Shown {
  actual: number
  /** What is measured, store first: `Redis, one lock at a time: time of a pair`. */
  title?: string
  /** Given if `actual` is a ratio, of a figure of ours to theirs or the other way round. */
  peer?: Peer
  /** The unit of `actual`, if it is no ratio. */
  unit?: string
}

/** A figure and the limit it must keep. At least one of the limits is given. */
export interface Bar extends Shown {
  atLeast?: number
  atMost?: number
}

/** A comparison that has no bar. */
export interface Ratio extends Shown {
  better: 'more' | 'less'
}

/** What a bench found. */
export interface Report {
  /** The bench's file name, without `.ts`. */
  name: string
  /** What was measured, units last in the key: `claimsPerSecond`, `grantP99Ms`. */
  figures: Record<string, number | string | boolean>
  /** What must hold for the bench to pass. */
  bars: Record<string, Bar>
  /** What readers want to compare as well. */
  ratios?: Record<string, Ratio>
}

/**
 * Prints the figures and bars as a table, then as the last line
 * `RESULT {"name":…,"ok":…,"figures":{…},"bars":{…},"ratios":{…}}`. Sets the exit code: 0 when every bar holds, else 1.
 * Call it once, after everything the bench opened is closed. Returns whether every bar holds.
 */
export function report({ name, figures, bars, ratios }: Report): boolean {
  const judged = Object.fromEntries(Object.entries(bars).map(([title, bar]) => [title, { ...bar, ok: holds(bar) }]))
  const ok = Object.values(judged).every((bar) => bar.ok)
  const width = Math.max(
    0,
    ...[figures, bars, ratios ?? {}].flatMap((part) => Object.keys(part)).map((title) => title.length),
  )

  console.log(`\n${name}`)
  for (const [title, figure] of Object.entries(figures)) console.log(`  ${title.padEnd(width)}  ${readable(figure)}`)
  for (const [title, { actual, better }] of Object.entries(ratios ?? {})) {
    console.log(`  ${title.padEnd(width)}  ${readable(actual)} (${better} is better)`)
  }
  if (Object.keys(judged).length > 0) console.log('\nbars')
  for (const [title, bar] of Object.entries(judged)) {
    console.log(`  ${title.padEnd(width)}  ${readable(bar.actual)} (${limitOf(bar)})  ${bar.ok ? 'holds' : 'MISSED'}`)
  }

  console.log(`\nRESULT ${JSON.stringify({ name, ok, figures, bars: judged, ratios })}`)
  process.exitCode = ok ? 0 : 1
  return ok
}

/** Measures once and resolves to the figure, e.g. claims per second. */
export type Contender = () => Promise<number> | number

/** What {@link interleave} found. */
export interface Comparison<Name extends string> {
  /** Every figure of each contender, by round. */
  rounds: Record<Name, number[]>
  /** The median figure of each contender. */
  medians: Record<Name, number>
  /** The median over the rounds of one contender's figure divided by another's of the same round. */
  ratio: (numerator: Name, denominator: Name) => number
}

/**
 * Runs the contenders one after another for several rounds, starting each round with the next contender.
 * A machine that slows down or speeds up thus favours nobody, and ratios compare neighbours in time only.
 */
export async function interleave<Name extends string>(
  rounds: number,
  contenders: Record<Name, Contender>,
): Promise<Comparison<Name>> {
  const names = Object.keys(contenders) as Name[]
  const figures = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>

  for (let round = 0; round < rounds; round += 1) {
    const start = round % names.length
    for (const name of [...names.slice(start), ...names.slice(0, start)]) {
      // One at a time: contenders must not share the machine.
      figures[name].push(await contenders[name]())
    }
  }

  return {
    rounds: figures,
    medians: Object.fromEntries(names.map((name) => [name, median(figures[name])])) as Record<Name, number>,
    ratio: (numerator, denominator) =>
      median(figures[numerator].map((figure, round) => figure / (figures[denominator][round] ?? Number.NaN))),
  }
}

/** The smallest value that at least `share` (0 to 1) of the values do not exceed. NaN when there are none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right)
  const rank = Math.max(1, Math.ceil(share * sorted.length))
  return sorted[rank - 1] ?? Number.NaN
}

/** The middle value, or the mean of the middle two. NaN when there are none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right)
  const upper = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
  const lower = sorted[Math.ceil(sorted.length / 2) - 1] ?? Number.NaN
  return (lower + upper) / 2
}

/** The figures that describe a spread of durations. */
export function spread(values: readonly number[]): { p50: number; p90: number; p99: number; max: number } {
  return {
    p50: percentile(values, 0.5),
    p90: percentile(values, 0.9),
    p99: percentile(values, 0.99),
    max: percentile(values, 1),
  }
}

interface Limits {
  readonly atLeast?: number | undefined
  readonly atMost?: number | undefined
}

/** Whether a figure keeps its limits. */
export function holds({ actual, atLeast, atMost }: Limits & { readonly actual: number }): boolean {
  if (atLeast === undefined && atMost === undefined) throw new Error('A bar needs atLeast or atMost.')
  // Written so that NaN holds no bar.
  return actual >= (atLeast ?? -Infinity) && actual <= (atMost ?? Infinity)
}

/** The limits in words: `at most 2`. */
export function limitOf({ atLeast, atMost }: Limits): string {
  const limits = [
    atLeast === undefined ? '' : `at least ${readable(atLeast)}`,
    atMost === undefined ? '' : `at most ${readable(atMost)}`,
  ]
  return limits.filter((limit) => limit !== '').join(', ')
}

/** A figure as people read it: four significant digits at most; whole numbers whole, with thousands apart. */
export function readable(figure: number | string | boolean): string {
  if (typeof figure !== 'number') return String(figure)
  if (Math.abs(figure) >= 1000) return Math.round(figure).toLocaleString('en-GB')
  return String(Number(figure.toPrecision(4)))
}

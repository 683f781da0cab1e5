/** What the page says of each figure, over all kept runs of its bench. */
import { holds, median, type Bar, type Peer, type Ratio } from '../report.ts'
import { plan } from './plan.ts'
import type { Results, Run } from './results.ts'

export interface Row {
  readonly bench: string
  /** The figure's name in the result of its bench. */
  readonly key: string
  readonly title: string
  readonly peer?: Peer | undefined
  readonly unit?: string | undefined
  readonly better: 'more' | 'less'
  readonly atLeast?: number | undefined
  readonly atMost?: number | undefined
  /** The median of the runs. */
  readonly actual: number
  readonly lowest: number
  readonly highest: number
  readonly runs: number
  /** In how many runs the bar was missed. Undefined if there is no bar. */
  readonly missed?: number | undefined
}

/** A row that compares. */
export type PeerRow = Row & { readonly peer: Peer }

export function rowsOf(results: Results): readonly Row[] {
  return plan.flatMap(({ name }) => {
    const runs = results[name] ?? []
    const latest = runs.at(-1)?.result
    if (latest === undefined) return []
    const shown = { ...latest.bars, ...latest.ratios }
    return Object.entries(shown).map(([key, figure]) => rowOf(name, key, figure, runs))
  })
}

export function isPeerRow(row: Row): row is PeerRow {
  return row.peer !== undefined
}

/** How many times better than the peer Leasehold is: above 1 it is ahead, below 1 behind. */
export function advantageOf({ better }: Pick<Row, 'better'>, ratio: number): number {
  return better === 'more' ? ratio : 1 / ratio
}

/** Titles, limits and the peer are those of the latest run; figures are of all runs that have this one. */
function rowOf(bench: string, key: string, figure: Bar | Ratio, runs: readonly Run[]): Row {
  const { title = key, unit } = figure
  const limits = 'better' in figure ? {} : { atLeast: figure.atLeast, atMost: figure.atMost }
  const found = runs.flatMap(({ result }) => result.bars[key] ?? result.ratios?.[key] ?? [])
  const actuals = found.map(({ actual }) => actual)
  const peers = found.flatMap(({ peer }) => peer ?? [])
  return {
    bench,
    key,
    title,
    unit,
    ...limits,
    peer: figure.peer && {
      ...figure.peer,
      ours: median(peers.map(({ ours }) => ours)),
      theirs: median(peers.map(({ theirs }) => theirs)),
    },
    better: 'better' in figure ? figure.better : figure.atLeast === undefined ? 'less' : 'more',
    actual: median(actuals),
    lowest: Math.min(...actuals),
    highest: Math.max(...actuals),
    runs: actuals.length,
    missed: 'better' in figure ? undefined : actuals.filter((actual) => !holds({ ...limits, actual })).length,
  }
}

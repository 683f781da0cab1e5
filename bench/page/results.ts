/** The latest runs of each bench, as docs/benchmarks/results.json keeps them. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Report } from '../report.ts'

/** One run of a bench, and what the machine was like. */
export interface Run {
  /** When the run began, in UTC: `2026-11-18T16:30:00Z`. */
  readonly startedAt: string
  readonly seconds: number
  readonly node: string
  readonly cores: number
  /** The load average of a minute, before and after. The benches before this one and the bench itself count as load. */
  readonly load: readonly [before: number, after: number]
  /** The share of all processors in use during the second before the run: other work, and nothing else. */
  readonly busyBefore: number
  readonly result: Report
}

/** Runs by bench, oldest first. */
export type Results = Readonly<Record<string, readonly Run[]>>

/** How many runs of a bench are kept. */
export const runsKept = 5

export function readResults(docs: string): Results {
  const file = fileIn(docs)
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Results) : {}
}

/** One run a line, so that a change reads well. */
export function writeResults(docs: string, results: Results): void {
  const benches = Object.entries(results).map(
    ([name, runs]) => `${JSON.stringify(name)}: [\n${runs.map((run) => JSON.stringify(run)).join(',\n')}\n]`,
  )
  mkdirSync(path.dirname(fileIn(docs)), { recursive: true })
  writeFileSync(fileIn(docs), `{\n${benches.join(',\n')}\n}\n`)
}

/** The results with one run more; the oldest beyond {@link runsKept} are dropped. */
export function withRun(results: Results, name: string, run: Run): Results {
  return { ...results, [name]: [...(results[name] ?? []), run].slice(-runsKept) }
}

/** The report in the output of a bench. Throws if the page could not show it. */
export function reportIn(output: string): Report | undefined {
  const line = output.split('\n').findLast((each) => each.startsWith('RESULT '))
  if (line === undefined) return undefined
  const found = JSON.parse(line.slice('RESULT '.length)) as Report
  for (const [key, { title, peer, actual }] of Object.entries({ ...found.bars, ...found.ratios })) {
    // JSON has no NaN and no Infinity: such a figure arrives as null, which would pass for 0.
    const figures = peer === undefined ? [actual] : [actual, peer.ours, peer.theirs]
    if (!figures.every(Number.isFinite)) throw new Error(`${found.name}: ${key} was not measured.`)
    if (title === undefined) throw new Error(`${found.name}: ${key} has no title.`)
    if (key in (found.ratios ?? {}) && peer === undefined) throw new Error(`${found.name}: ${key} has no peer.`)
  }
  return found
}

function fileIn(docs: string): string {
  return path.join(docs, 'benchmarks', 'results.json')
}

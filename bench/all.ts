/**
 * Every short bench, one after another; writes docs/benchmarks.md out of the results.
 *
 *   npm run bench -- all [NAME …] [--runs N] [--fresh]
 *
 *   NAME      runs only these benches; the figures of all others stay
 *   --runs N  runs all of them N times (default 1), round by round, so that the page can show a range
 *   --fresh   forgets the earlier runs of these benches
 *
 * The five latest runs of each bench are kept in docs/benchmarks/results.json, each with its date, the version of Node and
 * the load of the machine. The page is written after each bench, so that a run that is interrupted has not been in vain.
 * `npm run bench -- page` only writes the page. `growth` is left out: it takes an hour, and has a page of its own.
 */
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { writePage } from './page/page.ts'
import { plan, type PlannedBench } from './page/plan.ts'
import { readResults, withRun, writeResults, type Results, type Run } from './page/results.ts'
import { runBench } from './page/run-bench.ts'
import { holds, limitOf, readable } from './report.ts'

const docs = fileURLToPath(new URL('../../docs', import.meta.url))
const { names, rounds, isFresh } = parsed()
const chosen = plan.filter(({ name }) => names.length === 0 || names.includes(name))

const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => stop.abort(new Error(`Ended by ${signal}.`)))
}

let results: Results = readResults(docs)
const forgotten = new Set<string>()
const failures: string[] = []
const total = rounds * chosen.length
const since = performance.now()
for (let step = 0; step < total && !stop.signal.aborted; step += 1) {
  const bench = chosen[step % chosen.length]
  if (bench === undefined) break
  announce(bench, step)
  try {
    const run = await runBench(bench, stop.signal)
    // Only now: a bench that fails keeps the figures it had.
    if (isFresh && !forgotten.has(bench.name)) results = { ...results, [bench.name]: [] }
    forgotten.add(bench.name)
    results = withRun(results, bench.name, run)
    writeResults(docs, results)
    writePage(docs, results)
    summarize(run)
  } catch (error) {
    failures.push(bench.name)
    console.error(`    FAILED: ${error instanceof Error ? error.message : String(error)}`)
  }
}
console.log(`\n${Math.round((performance.now() - since) / 6000) / 10} minutes. The page is docs/benchmarks.md.`)
if (failures.length > 0) {
  console.error(`Without a result: ${failures.join(', ')}.`)
  process.exitCode = 1
}

function announce({ name, limitMs }: PlannedBench, step: number): void {
  const last = results[name]?.at(-1)
  const expected = last === undefined ? `at most ${limitMs / 60_000} minutes` : `${last.seconds} s the last time`
  console.log(`[${step + 1}/${total}] ${name} (${expected})`)
}

function summarize({ seconds, load, busyBefore, result }: Run): void {
  const bars = Object.entries(result.bars)
  const missed = bars.filter(([, bar]) => !holds(bar))
  const machine = `processors ${Math.round(100 * busyBefore)} % busy before, load ${load[0]} → ${load[1]}`
  console.log(`    ${seconds} s, ${bars.length - missed.length} of ${bars.length} bars hold; ${machine}`)
  for (const [key, bar] of missed) console.log(`    missed: ${key} is ${readable(bar.actual)}, ${limitOf(bar)}`)
}

function parsed(): { readonly names: readonly string[]; readonly rounds: number; readonly isFresh: boolean } {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { runs: { type: 'string', default: '1' }, fresh: { type: 'boolean', default: false } },
    })
    const unknown = positionals.filter((word) => !plan.some(({ name }) => name === word))
    if (unknown.length > 0) {
      throw new Error(`Unknown: ${unknown.join(' ')}. Benches: ${plan.map(({ name }) => name).join(' ')}.`)
    }
    const runs = Number(values.runs)
    if (!Number.isSafeInteger(runs) || runs < 1 || runs > 20) throw new Error('--runs takes a number from 1 to 20.')
    return { names: positionals, rounds: runs, isFresh: values.fresh }
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exit(2)
  }
}

/** How costs grow with waiters, holders, ranges, keys, leases and clients. Names of stores and dimensions select. */
import { fileURLToPath } from 'node:url'
import { barLimits, judge } from './growth/bars.ts'
import { storeNames, type Curve } from './growth/curve.ts'
import { dimensions } from './growth/dimensions.ts'
import { merged, writePage } from './growth/page.ts'
import { runCurve } from './growth/run-curve.ts'
import { report, type Bar } from './report.ts'

const docs = fileURLToPath(new URL('../../docs', import.meta.url))
const words = process.argv.slice(2)
const unknown = words.filter(
  (word) => !(storeNames as readonly string[]).includes(word) && !(word in dimensions) && word !== '--page',
)
if (unknown.length > 0) {
  console.error(
    `Unknown: ${unknown.join(' ')}. Stores: ${storeNames.join(' ')}. Dimensions: ${Object.keys(dimensions).join(' ')}.`,
  )
  process.exit(2)
}
const chosen = <Name extends string>(names: readonly Name[]): readonly Name[] => {
  const named = names.filter((name) => words.includes(name))
  return named.length > 0 ? named : names
}

const curves: Curve[] = []
// `--page` writes the page anew from the curves of earlier runs.
for (const store of words.includes('--page') ? [] : chosen(storeNames)) {
  for (const dimension of chosen(Object.keys(dimensions))) {
    curves.push(await runCurve(store, dimension))
    // After each curve, so that a run that is interrupted has not been in vain.
    writePage(docs, merged(docs, curves))
  }
}
if (curves.length === 0) writePage(docs, merged(docs, []))

const bars: Record<string, Bar> = {}
const figures: Record<string, number | string> = {}
for (const curve of curves) {
  const name = `${curve.store} ${curve.dimension}`
  const { worst, times, busyMs, bystanderTimes, lost } = judge(curve)
  figures[`${name}: grows most`] = worst ?? 'nothing'
  figures[`${name}: largest size`] = curve.points.at(-1)?.size ?? 0
  bars[`${name}: times at the largest size`] = { actual: times, atMost: barLimits.times }
  bars[`${name}: busy ms`] = { actual: busyMs, atMost: barLimits.busyMs }
  bars[`${name}: bystander to quiet`] = { actual: bystanderTimes, atMost: barLimits.bystanderTimes }
  bars[`${name}: lost`] = { actual: lost, atMost: barLimits.lost }
  bars[`${name}: sizes missed`] = { actual: curve.missed === undefined ? 0 : 1, atMost: 0 }
}
if (curves.length > 0) report({ name: 'growth', figures, bars })

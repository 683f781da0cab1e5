/** Writes docs/growth.md and its plots out of all curves measured so far. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { barLimits, judge } from './bars.ts'
import { operationNames, slopeOf, storeNames, timesAtLargest, type Curve } from './curve.ts'
import { dimensions, type Dimension } from './dimensions.ts'
import { plot } from './plot.ts'

/** What the page says before its figures, from the root of the repository. People edit it. */
const introduction = 'bench/growth/introduction.md'

/** The curves of earlier runs, with those of this one in the place of their like. */
export function merged(folder: string, measured: readonly Curve[]): readonly Curve[] {
  const file = path.join(folder, 'growth', 'curves.json')
  const known = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Curve[]) : []
  const isNew = (curve: Curve): boolean => measured.some((each) => isLike(each, curve))
  const all = [...known.filter((curve) => !isNew(curve)), ...measured]
  const rank = ({ store, dimension }: Curve): number =>
    Object.keys(dimensions).indexOf(dimension) * storeNames.length + storeNames.indexOf(store)
  return all.toSorted((first, second) => rank(first) - rank(second))
}

export function writePage(folder: string, curves: readonly Curve[]): void {
  const plots = path.join(folder, 'growth')
  mkdirSync(plots, { recursive: true })
  writeFileSync(path.join(plots, 'curves.json'), `[\n${curves.map((curve) => JSON.stringify(curve)).join(',\n')}\n]\n`)
  const sections = Object.entries(dimensions).flatMap(([name, dimension]) => {
    const own = curves.filter((curve) => curve.dimension === name && curve.points.length > 0)
    if (own.length === 0) return []
    writeFileSync(path.join(plots, `${name}.svg`), plot(dimension.title, own))
    return [sectionOf(name, dimension, own)]
  })
  const opening = readFileSync(path.join(folder, '..', introduction), 'utf8').trimEnd()
  writeFileSync(path.join(folder, 'growth.md'), [opening, overviewOf(curves), ...sections].join('\n\n') + '\n')
}

function isLike(first: Curve, second: Curve): boolean {
  return first.store === second.store && first.dimension === second.dimension
}

function overviewOf(curves: readonly Curve[]): string {
  const names = storeNames.filter((name) => curves.some(({ store }) => store === name))
  const rows = Object.keys(dimensions).map((dimension) => {
    const cells = names.map((store) => {
      const curve = curves.find((each) => isLike(each, { ...each, store, dimension }))
      if (curve === undefined || curve.points.length === 0) return '–'
      const { worst, times } = judge(curve)
      const until = curve.missed === undefined ? '' : `, up to ${figure(curve.points.at(-1)?.size ?? 0)}`
      return `${marked(times, barLimits.times, `${figure(times)}×`)} ${worst}${until}`
    })
    return `| [${dimension}](#${dimension}) | ${cells.join(' | ')} |`
  })
  return [
    '## Overview',
    'The operation that grows most on each curve: its cost at the largest size, divided by its cost at 10. A figure in **bold** misses its bar; *up to* is where a curve ends because the next size was missed.',
    [`| | ${names.join(' | ')} |`, `| --- ${'| --- '.repeat(names.length)}|`, ...rows].join('\n'),
  ].join('\n\n')
}

function sectionOf(name: string, { title, summary }: Dimension, curves: readonly Curve[]): string {
  return [
    `## ${name}`,
    summary,
    `![Cost of operations by ${title}](growth/${name}.svg)`,
    `Microseconds an operation, by ${title}.`,
    costsOf(curves),
    barsOf(curves),
  ].join('\n\n')
}

function costsOf(curves: readonly Curve[]): string {
  const sizes = [...new Set(curves.flatMap(({ points }) => points.map(({ size }) => size)))].toSorted((a, b) => a - b)
  const rows = curves.flatMap((curve) =>
    operationNames.flatMap((operation) => {
      const times = timesAtLargest(curve, operation)
      if (!curve.points.some(({ costs }) => operation in costs)) return []
      const cells = sizes.map((size) => {
        const us = curve.points.find((point) => point.size === size)?.costs[operation]
        return us === undefined ? '' : figure(us)
      })
      const grown = times === undefined ? '' : marked(times, barLimits.times, `${figure(times)}×`)
      const slope = slopeOf(curve, operation)?.toFixed(2) ?? ''
      return [`| ${curve.store} ${operation} | ${cells.join(' | ')} | ${grown} | ${slope} |`]
    }),
  )
  const head = `| | ${sizes.map(figure).join(' | ')} | largest to 10 | slope |`
  return [head, `| --- ${'| ---: '.repeat(sizes.length + 2)}|`, ...rows].join('\n')
}

function barsOf(curves: readonly Curve[]): string {
  const rows = curves.map((curve) => {
    const { busyMs, quietP99Us, bystanderTimes, lost } = judge(curve)
    const busyOf = (when: 'busyFilling' | 'busyWorking') => (part: 'loopMs' | 'storeMs') =>
      Math.max(...curve.points.map((point) => point[when][part] ?? Number.NaN))
    const [filling, working] = [busyOf('busyFilling'), busyOf('busyWorking')]
    const both = (of: (part: 'loopMs' | 'storeMs') => number): string =>
      Number.isNaN(of('storeMs')) ? figure(of('loopMs')) : `${figure(of('loopMs'))}, ${figure(of('storeMs'))}`
    const p99 = curve.points.at(-1)?.bystanderP99Us ?? Number.NaN
    const missed = curve.missed === undefined ? '' : `from ${figure(curve.missed.fromSize)}: ${curve.missed.reason}`
    return (
      `| ${curve.store} | ${both(filling)} | ${both(working)} | ${marked(busyMs, barLimits.busyMs, figure(busyMs))} ` +
      `| ${figure(quietP99Us)}, ${figure(p99)} | ${marked(bystanderTimes, barLimits.bystanderTimes, figure(bystanderTimes))} ` +
      `| ${marked(lost, barLimits.lost, String(lost))} | ${missed} | ${curve.measuredOn} |`
    )
  })
  return [
    '| | busy filling, ms: loop, store | busy working, ms: loop, store | longest, at most 50 | bystander p99, µs: quiet, largest size ' +
      '| worst to quiet, at most 3 | leases lost | sizes missed | measured |',
    `| --- ${'| ---: '.repeat(6)}| --- | --- |`,
    ...rows,
  ].join('\n')
}

function marked(actual: number, atMost: number, text: string): string {
  return actual <= atMost ? text : `**${text}**`
}

/** Three significant digits, thousands apart. */
function figure(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString('en-GB')
}

/** Writes docs/benchmarks.md and its plots out of the kept results, and of the words that people edit. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { limitOf } from '../report.ts'
import { plan } from './plan.ts'
import { plot } from './plot.ts'
import { behindOf, missedOf, readReasons, type Reasons } from './reasons.ts'
import { readmeWith } from './readme.ts'
import type { Results, Run } from './results.ts'
import { advantageOf, isPeerRow, rowsOf, type PeerRow, type Row } from './rows.ts'
import { day, figure, range, standing, times } from './words.ts'

/** More than this share of the processors in use before a run is other work. */
const busyLimit = 0.15

const kinds = {
  library: {
    heading: 'Against other libraries',
    plot: 'libraries',
    words: 'Libraries that people use for the same purpose.',
  },
  'hand-written': {
    heading: 'Against what you would write by hand',
    plot: 'hand-written',
    words:
      'The few bare calls of the store that take and give back a lock, or wake a waiter. They have no fence and no renewal, and mostly no queue, so being level with them is the aim, and a bar says how far behind Leasehold may be.',
  },
} as const

/** Everything that the page consists of, by path below docs/. */
export function pageOf(root: string, results: Results): Readonly<Record<string, string>> {
  const words = (name: string): string => readFileSync(path.join(root, 'bench/page', `${name}.md`), 'utf8').trimEnd()
  const rows = rowsOf(results)
  const reasons = readReasons(words('reasons'))
  const compared = Object.entries(kinds).map(([kind, each]) => {
    return { ...each, rows: rows.filter(isPeerRow).filter(({ peer }) => peer.kind === kind) }
  })
  const sections = compared.filter((each) => each.rows.length > 0)
  const page = [
    words('introduction'),
    conclusionOf(rows),
    machineOf(results),
    ...sections.map((section) =>
      [
        `## ${section.heading}`,
        section.words,
        `![How many times better or worse Leasehold is](benchmarks/${section.plot}.svg)`,
        comparisonsOf(section.rows),
      ].join('\n\n'),
    ),
    ...behindSection(rows, reasons),
    ...limitsSection(rows),
    ...missedSection(rows, reasons),
    [words('reproduce'), runsOf(results)].join('\n\n'),
  ]
  const plots = sections.map((each) => [`benchmarks/${each.plot}.svg`, plot(each.heading, each.rows)] as const)
  return { 'benchmarks.md': `${page.join('\n\n')}\n`, ...Object.fromEntries(plots) }
}

export function writePage(docs: string, results: Results): void {
  mkdirSync(path.join(docs, 'benchmarks'), { recursive: true })
  const files = pageOf(path.join(docs, '..'), results)
  for (const [file, text] of Object.entries(files)) writeFileSync(path.join(docs, file), text)
  const readme = path.join(docs, '../README.md')
  if (existsSync(readme)) {
    writeFileSync(readme, readmeWith(readFileSync(readme, 'utf8'), files['benchmarks.md'] ?? ''))
  }
}

function conclusionOf(rows: readonly Row[]): string {
  const against = rows.filter(isPeerRow).filter(({ peer }) => peer.kind === 'library')
  const ahead = against.filter((row) => advantageOf(row, row.actual) >= 1)
  const bars = rows.filter(({ missed }) => missed !== undefined)
  const held = bars.filter(({ missed }) => missed === 0)
  return (
    `**In short:** Leasehold is ahead of other libraries in ${ahead.length} of ${against.length} comparisons, and ` +
    `${held.length} of ${bars.length} bars hold in every run.`
  )
}

function machineOf(results: Results): string {
  const runs = plan.flatMap(({ name }) => results[name] ?? [])
  if (runs.length === 0) return 'Nothing has been measured yet.'
  const listed = (values: readonly string[]): string => [...new Set(values)].join(', ')
  const dates = runs.map(({ startedAt }) => startedAt).toSorted()
  const [first, last] = [day(dates[0] ?? ''), day(dates.at(-1) ?? '')]
  const missing = plan.filter(({ name }) => (results[name] ?? []).length === 0).map(({ name }) => name)
  const parts = [
    `Measured ${first === last ? `on ${first}` : `from ${first} to ${last}`}, on ${listed(runs.map(({ cores }) => `${cores}`))} ` +
      `processors, with Node ${listed(runs.map(({ node }) => node.slice(1)))}.`,
  ]
  if (missing.length > 0) parts.push(`Not measured yet: ${missing.join(', ')}.`)
  const busiest = Math.max(...runs.map(({ busyBefore }) => busyBefore))
  if (busiest > busyLimit) {
    parts.push(
      `**The machine was busy with other work:** up to ${Math.round(100 * busiest)} % of its processors were in use before a run, so these figures are not final.`,
    )
  }
  return parts.join(' ')
}

function comparisonsOf(rows: readonly PeerRow[]): string {
  const lines = rows.map((row) => {
    const { ours, theirs, unit, name } = row.peer
    return `| ${titled(row)} | ${name} | ${figure(ours)}, ${figure(theirs)} ${unit} | ${aheadOf(row)} | ${ratioOf(row)} | ${barOf(row)} |`
  })
  const head = '| what is measured | against | Leasehold, the other | Leasehold is | ratio, its range | bar |'
  return [head, '| --- | --- | --- | --- | --- | --- |', ...lines].join('\n')
}

function behindSection(rows: readonly Row[], reasons: Reasons): string[] {
  const behind = behindOf(rows, reasons)
  if (behind.length === 0) return []
  const items = behind.map(({ rows: together, reason }) => {
    const against = together.map((row) => `${times(1 / advantageOf(row, row.actual))} behind ${row.peer.name}`)
    return `- **${together[0]?.title}**: ${against.join('; ')}. ${reason ?? ''}`.trimEnd()
  })
  return ['## Where others are faster', items.join('\n')]
}

function missedSection(rows: readonly Row[], reasons: Reasons): string[] {
  const missed = missedOf(rows, reasons)
  if (missed.length === 0) return []
  const items = missed.map(({ rows: together, reason }) => {
    const figures = together.map((row) => {
      const some = row.missed === row.runs ? '' : ` (missed in ${row.missed} of ${row.runs} runs)`
      const against = row.peer === undefined ? '' : ` against ${row.peer.name}`
      return `${ratioOf(row)}${withUnit(row)}${against}, must be ${limitOf(row)}${some}`
    })
    return `- **${together[0]?.title}**: ${figures.join('; ')}. ${reason ?? ''}`.trimEnd()
  })
  return [
    '## Bars that are missed',
    'A bar is an aim, and stays when it is missed. Bars of the section on where others are faster are not repeated here.',
    items.join('\n'),
  ]
}

function limitsSection(rows: readonly Row[]): string[] {
  const lines = rows
    .filter((row) => !isPeerRow(row))
    .map((row) => `| ${titled(row)} | ${ratioOf(row)}${withUnit(row)} | ${barOf(row)} |`)
  if (lines.length === 0) return []
  return [
    '## Limits that we set ourselves',
    'What has no peer to compare with: memory, processor time, commands, fairness, and what must never happen.',
    ['| what is measured | figure, its range | bar |', '| --- | --- | --- |', ...lines].join('\n'),
  ]
}

function runsOf(results: Results): string {
  const lines = plan.flatMap(({ name, words }) => {
    const runs = results[name] ?? []
    const of = (part: (run: Run) => number): string => range(Math.min(...runs.map(part)), Math.max(...runs.map(part)))
    if (runs.length === 0) return []
    const busy = runs.map(({ busyBefore }) => Math.round(100 * busyBefore))
    return [
      `| [${[name, ...words].join(' ')}](benchmarks/notebook.md#${name}) | ${runs.length} | ${day(runs.at(-1)?.startedAt ?? '')} | ${of(({ seconds }) => seconds)} ` +
        `| ${range(Math.min(...busy), Math.max(...busy))} % | ${of(({ load }) => load[0])} | ${of(({ load }) => load[1])} |`,
    ]
  })
  if (lines.length === 0) return ''
  const head = '| bench | runs | latest | seconds | processors busy before | load before | load after |'
  return [head, '| --- | ---: | --- | ---: | ---: | ---: | ---: |', ...lines].join('\n')
}

/** Leads to what the notebook has about the bench. */
function titled({ title, bench }: Row): string {
  return `[${title}](benchmarks/notebook.md#${bench})`
}

function aheadOf(row: PeerRow): string {
  const words = standing(advantageOf(row, row.actual))
  return words.endsWith('behind') ? `**${words}**` : words
}

function ratioOf({ actual, lowest, highest, runs }: Row): string {
  return runs > 1 ? `${figure(actual)} (${range(lowest, highest)})` : figure(actual)
}

function withUnit({ unit }: Row): string {
  return unit === undefined ? '' : ` ${unit}`
}

function barOf(row: Row): string {
  if (row.missed === undefined) return `none; ${row.better} is better`
  if (row.missed === 0) return `${limitOf(row)}: holds`
  return `${limitOf(row)}: **missed${row.missed === row.runs ? '' : ` in ${row.missed} of ${row.runs}`}**`
}

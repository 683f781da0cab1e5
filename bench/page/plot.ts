/** Plots comparisons as SVG: a horizontal bar each, to the right where Leasehold is ahead, on a logarithmic axis. */
import { advantageOf, type PeerRow } from './rows.ts'
import { standing, times } from './words.ts'

/** Legible on white and on black. */
const colours = { ahead: '#2f87d0', behind: '#cf7a00' }
const label = { left: 4, width: 456 }
/** On its right is a column for the figures. */
const chart = { width: 480, left: 16, right: 108 }
const head = 46
const rowHeight = 36
const foot = 44
const width = label.width + chart.width
/** Marks on the axis that are closer than this would run into each other. */
const markGap = 40
/** What the axis may be marked with, on either side. */
const marks = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]

export function plot(title: string, rows: readonly PeerRow[]): string {
  const height = head + rows.length * rowHeight + foot
  const xOf = scaleOf(rows)
  const bottom = head + rows.length * rowHeight
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${escaped(title)}</title>`,
    '<style>svg{color:#1f2328;font:13px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}text{fill:currentColor}',
    '.quiet{opacity:.65;font-size:12px}.value{font-weight:600}',
    '@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>',
    ...gridOf(xOf, bottom),
    ...rows.map((row, index) => barOf(row, xOf, head + index * rowHeight)),
    legendOf(bottom + foot - 12),
    '</svg>\n',
  ].join('\n')
}

/** From an advantage to its place: wide enough for all ranges and bars, with 1 always on it. */
function scaleOf(rows: readonly PeerRow[]): Scale {
  const all = rows.flatMap((row) => [
    ...[row.lowest, row.highest, row.actual].map((ratio) => advantageOf(row, ratio)),
    ...limitsOf(row),
  ])
  const [from, to] = [Math.log(Math.min(0.5, ...all) * 0.8), Math.log(Math.max(2, ...all) * 1.1)]
  const [left, right] = [label.width + chart.left, width - chart.right]
  const scale = (advantage: number): number => left + ((Math.log(advantage) - from) / (to - from)) * (right - left)
  return Object.assign(scale, { left, right })
}

interface Scale {
  (advantage: number): number
  readonly left: number
  readonly right: number
}

function gridOf(xOf: Scale, bottom: number): string[] {
  const lines = [
    ...spaced(marks, xOf),
    ...spaced(
      marks.map((mark) => 1 / mark),
      xOf,
    ).slice(1),
  ].map(({ advantage, x }) => {
    const opacity = advantage === 1 ? '.7' : '.15'
    const text = advantage === 1 ? '1' : times(Math.max(advantage, 1 / advantage))
    return (
      `<line x1="${x.toFixed(1)}" x2="${x.toFixed(1)}" y1="${head - 6}" y2="${bottom}" stroke="currentColor" stroke-opacity="${opacity}"/>` +
      `<text class="quiet" x="${x.toFixed(1)}" y="${head - 12}" text-anchor="middle">${text}</text>`
    )
  })
  const middle = xOf(1).toFixed(1)
  return [
    ...lines,
    `<text x="${Number(middle) - 8}" y="16" text-anchor="end" style="fill:${colours.behind}">← behind</text>`,
    `<text x="${Number(middle) + 8}" y="16" style="fill:${colours.ahead}">Leasehold ahead →</text>`,
  ]
}

/** The marks from 1 outwards that lie on the axis and leave each other room. */
function spaced(advantages: readonly number[], xOf: Scale): { readonly advantage: number; readonly x: number }[] {
  const kept: { readonly advantage: number; readonly x: number }[] = []
  for (const advantage of advantages) {
    const x = xOf(advantage)
    const last = kept.at(-1)
    if (x < xOf.left || x > xOf.right || (last !== undefined && Math.abs(x - last.x) < markGap)) continue
    kept.push({ advantage, x })
  }
  return kept
}

function barOf(row: PeerRow, xOf: Scale, top: number): string {
  const advantage = advantageOf(row, row.actual)
  const isAhead = advantage >= 1
  const [zero, end] = [xOf(1), xOf(advantage)]
  const [low, high] = [row.lowest, row.highest].map((ratio) => xOf(advantageOf(row, ratio))).toSorted((a, b) => a - b)
  const middle = top + rowHeight / 2
  const colour = isAhead ? colours.ahead : colours.behind
  const parts = [
    `<text x="${label.left}" y="${middle - 2}">${escaped(row.title)}</text>`,
    `<text class="quiet" x="${label.left}" y="${middle + 13}">${escaped(`against ${row.peer.name}`)}</text>`,
    `<rect x="${Math.min(zero, end).toFixed(1)}" y="${middle - 7}" width="${Math.max(1.5, Math.abs(end - zero)).toFixed(1)}" height="14" rx="2" fill="${colour}"/>`,
    `<text class="value" x="${width - 4}" y="${middle + 4.5}" text-anchor="end" style="fill:${colour}">${standing(advantage)}</text>`,
  ]
  if (row.runs > 1 && low !== undefined && high !== undefined) parts.push(rangeAt(low, high, middle))
  for (const limit of limitsOf(row)) parts.push(limitAt(xOf(limit), middle))
  return parts.join('\n')
}

/** Where the bar's limit lies. */
function limitsOf(row: PeerRow): number[] {
  return [row.atLeast, row.atMost].flatMap((limit) => (limit === undefined ? [] : [advantageOf(row, limit)]))
}

function rangeAt(low: number, high: number, y: number): string {
  return `<path d="M${low.toFixed(1)} ${y}H${high.toFixed(1)}M${low.toFixed(1)} ${y - 4}v8M${high.toFixed(1)} ${y - 4}v8" fill="none" stroke="currentColor" stroke-width="1.3"/>`
}

function limitAt(x: number, y: number): string {
  return `<path d="M${x.toFixed(1)} ${y - 12}v24" stroke="currentColor" stroke-width="2" stroke-dasharray="3 2"/>`
}

function legendOf(y: number): string {
  const x = label.width + chart.left
  return [
    rangeAt(x, x + 26, y - 4),
    `<text class="quiet" x="${x + 34}" y="${y}">range of the runs</text>`,
    limitAt(x + 170, y - 4),
    `<text class="quiet" x="${x + 180}" y="${y}">the bar to reach</text>`,
  ].join('\n')
}

/** Peers' names have the backticks of Markdown. */
function escaped(text: string): string {
  return text.replaceAll('`', '').replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}

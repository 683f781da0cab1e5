/** Plots curves as SVG: a panel for each operation, a line for each store, both axes logarithmic. */
import { operationNames, storeNames, type Curve, type OperationName, type StoreName } from './curve.ts'

/** Legible on white and on black. */
const colours: Record<StoreName, string> = {
  memory: '#808890',
  sqlite: '#2f87d0',
  redis: '#d9483b',
  postgres: '#9460d8',
  mongodb: '#2f9e55',
  etcd: '#cf8a00',
}
const panel = { width: 290, height: 200, left: 52, right: 22, top: 30, bottom: 38 }
const perRow = 3
const legendHeight = 34

/** The whole powers of ten from the one below the least value to the one above the greatest. */
interface Axis {
  readonly from: number
  readonly to: number
}

export function plot(title: string, curves: readonly Curve[]): string {
  const operations = operationNames.filter((name) =>
    curves.some(({ points }) => points.some(({ costs }) => name in costs)),
  )
  const sizes = axisOf(curves.flatMap(({ points }) => points.map(({ size }) => size)))
  const costs = axisOf(curves.flatMap(({ points }) => points.flatMap((point) => Object.values(point.costs))))
  const width = perRow * panel.width
  const height = legendHeight + Math.ceil(operations.length / perRow) * panel.height
  const panels = operations.map((operation, index) => {
    const [x, y] = [(index % perRow) * panel.width, legendHeight + Math.floor(index / perRow) * panel.height]
    return `<g transform="translate(${x} ${y})">${panelOf(operation, title, curves, sizes, costs)}</g>`
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>Cost of operations by ${title}</title>`,
    '<style>svg{color:#222;font:12px system-ui,sans-serif}text{fill:currentColor}',
    '@media(prefers-color-scheme:dark){svg{color:#ddd}}</style>',
    legendOf(curves),
    ...panels,
    '</svg>\n',
  ].join('\n')
}

function legendOf(curves: readonly Curve[]): string {
  const shown = storeNames.filter((name) => curves.some(({ store }) => store === name))
  const items = shown.map((name, index) => {
    const x = panel.left + index * 110
    return (
      `<line x1="${x}" x2="${x + 18}" y1="16" y2="16" stroke="${colours[name]}" stroke-width="3"/>` +
      `<text x="${x + 24}" y="20">${name}</text>`
    )
  })
  return items.join('\n')
}

function panelOf(operation: OperationName, title: string, curves: readonly Curve[], sizes: Axis, costs: Axis): string {
  const [right, bottom] = [panel.width - panel.right, panel.height - panel.bottom]
  const xOf = (size: number): number => panel.left + shareOf(sizes, size) * (right - panel.left)
  const yOf = (us: number): number => bottom - shareOf(costs, us) * (bottom - panel.top)
  const parts = [`<text x="${panel.left}" y="${panel.top - 10}" font-weight="600">${operation}</text>`]
  for (let power = costs.from; power <= costs.to; power += 1) {
    const y = yOf(10 ** power).toFixed(1)
    parts.push(
      `<line x1="${panel.left}" x2="${right}" y1="${y}" y2="${y}" stroke="currentColor" stroke-opacity=".18"/>`,
      `<text x="${panel.left - 6}" y="${Number(y) + 4}" text-anchor="end">${duration(10 ** power)}</text>`,
    )
  }
  for (let power = sizes.from; power <= sizes.to; power += 1) {
    parts.push(
      `<text x="${xOf(10 ** power).toFixed(1)}" y="${bottom + 16}" text-anchor="middle">${count(10 ** power)}</text>`,
    )
  }
  parts.push(
    `<text x="${(panel.left + right) / 2}" y="${bottom + 32}" text-anchor="middle" opacity=".7">${title}</text>`,
  )
  for (const { store, points } of curves) {
    const dots = points.flatMap(({ size, costs: { [operation]: us } }) =>
      us === undefined ? [] : [`${xOf(size).toFixed(1)},${yOf(us).toFixed(1)}`],
    )
    if (dots.length === 0) continue
    parts.push(`<polyline points="${dots.join(' ')}" fill="none" stroke="${colours[store]}" stroke-width="2"/>`)
    for (const dot of dots) {
      const [x, y] = dot.split(',')
      parts.push(`<circle cx="${x}" cy="${y}" r="2.6" fill="${colours[store]}"/>`)
    }
  }
  return parts.join('\n')
}

function axisOf(values: readonly number[]): Axis {
  const logarithms = values.map(Math.log10)
  const from = Math.floor(Math.min(...logarithms))
  return { from, to: Math.max(from + 1, Math.ceil(Math.max(...logarithms))) }
}

function shareOf({ from, to }: Axis, value: number): number {
  return (Math.log10(value) - from) / (to - from)
}

function duration(us: number): string {
  return us < 1000 ? `${us} µs` : us < 1e6 ? `${us / 1000} ms` : `${us / 1e6} s`
}

function count(size: number): string {
  return size < 1000 ? String(size) : size < 1e6 ? `${size / 1000}k` : `${size / 1e6}M`
}

/**
 * The last hour: small charts above everything, and larger ones in a tab of their own.
 * @module
 */
import { barsPath, chartSize, linePath, topOf } from './chart.js'
import { byId, element, shape } from './element.js'
import { waitText } from './wording.js'

/** @typedef {import('../documents.ts').SeriesDocument} Series */
/** @typedef {import('../documents.ts').SeriesPoint} Point */
/** @typedef {{ readonly name: string, readonly of: (point: Point) => number | undefined, readonly style: string }} Measure */
/** @typedef {{ readonly id: string, readonly title: string, readonly measures: readonly Measure[], readonly text: (value: number) => string, readonly bars: boolean }} Chart */

/** @type {Measure} */
const p50 = { name: 'half waited less', of: ({ waitP50Ms }) => waitP50Ms, style: 'first' }
/** @type {Measure} */
const p99 = { name: '99 of 100 waited less', of: ({ waitP99Ms }) => waitP99Ms, style: 'second' }

/** @type {readonly Chart[]} */
const charts = [
  {
    id: 'granted',
    title: 'Grants a minute',
    text: String,
    bars: true,
    measures: [{ name: 'granted', of: ({ granted }) => granted, style: 'first' }],
  },
  { id: 'waits', title: 'Waits until a grant (p50, p99)', text: waitText, bars: false, measures: [p50, p99] },
  {
    id: 'lost',
    title: 'Losses a minute',
    text: String,
    bars: true,
    measures: [{ name: 'lost', of: ({ lost }) => lost, style: 'bad' }],
  },
  {
    id: 'takeovers',
    title: 'Takeovers a minute',
    text: String,
    bars: true,
    measures: [{ name: 'taken over', of: ({ takeovers }) => takeovers, style: 'warn' }],
  },
  {
    id: 'waiting',
    title: 'Queued at a time',
    text: String,
    bars: false,
    measures: [{ name: 'queued', of: ({ waiting }) => waiting, style: 'warn' }],
  },
]

export class ChartsView {
  #read
  #charts = byId('charts')
  #note = byId('charts-note')

  /** @param {(namespace: string) => Promise<Series>} read */
  constructor(read) {
    this.#read = read
  }

  /**
   * Never rejects.
   * @param {string} namespace '' for all
   */
  async refresh(namespace) {
    try {
      this.#show(await this.#read(namespace))
    } catch (error) {
      this.#note.textContent = error instanceof Error ? error.message : String(error)
    }
  }

  /** @param {Series} series */
  #show({ points, partial }) {
    for (const chart of charts) {
      const small = document.getElementById(`spark-${chart.id}`)
      if (small !== null) small.replaceChildren(drawing(chart, points))
    }
    const last = points.findLast(({ waitP99Ms }) => waitP99Ms !== undefined)
    byId('wait-p50').textContent = last?.waitP50Ms === undefined ? '–' : waitText(last.waitP50Ms)
    byId('wait-p99').textContent = last?.waitP99Ms === undefined ? '–' : waitText(last.waitP99Ms)
    byId('takeovers-hour').textContent = String(points.reduce((sum, { takeovers }) => sum + takeovers, 0))
    this.#charts.replaceChildren(...charts.map((chart) => figure(chart, points)))
    this.#note.textContent = partial
      ? 'Of some namespaces your token may read a part only: they are not counted here.'
      : ''
  }
}

/**
 * @param {Chart} chart
 * @param {readonly Point[]} points
 */
function figure(chart, points) {
  const values = chart.measures.flatMap(({ of }) => points.map(of))
  const legend = chart.measures.map(({ name, style }) => element('span', { class: `key ${style}` }, name))
  return element(
    'figure',
    {},
    element(
      'figcaption',
      {},
      element('h3', {}, chart.title),
      chart.measures.length > 1 ? element('span', { class: 'legend' }, ...legend) : null,
    ),
    element(
      'div',
      { class: 'plot' },
      element('span', { class: 'most' }, chart.text(topOf(values))),
      drawing(chart, points),
    ),
    element('div', { class: 'axis' }, element('span', {}, 'an hour ago'), element('span', {}, 'now')),
  )
}

/**
 * @param {Chart} chart
 * @param {readonly Point[]} points
 */
function drawing({ title, measures, text, bars }, points) {
  const top = topOf(measures.flatMap(({ of }) => points.map(of)))
  const said = measures.map(({ name, of }) => {
    const values = points.map(of).filter((value) => value !== undefined)
    return `${name}: ${text(values.at(-1) ?? 0)} now, ${text(Math.max(0, ...values))} at most`
  })
  return shape(
    'svg',
    {
      viewBox: `0 0 ${chartSize.width} ${chartSize.height}`,
      preserveAspectRatio: 'none',
      role: 'img',
      'aria-label': `${title} in the last hour. ${said.join('; ')}`,
    },
    ...measures.map(({ of, style }) => {
      const values = points.map(of)
      return shape('path', {
        class: `${bars ? 'bars' : 'line'} ${style}`,
        d: bars ? barsPath(values, top) : linePath(values, top),
      })
    }),
  )
}

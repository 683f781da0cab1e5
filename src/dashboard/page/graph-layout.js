/**
 * Lays out the wait-for graph from left to right: an owner that waits is left of the owner it waits for. Labels are boxes of the layout, too,
 * so that nothing lies on anything. No elements here: all of it can be tested without a browser.
 * @module
 */
import { visible } from './wording.js'

/** @typedef {import('../documents.ts').WaitDocument} Wait */
/** @typedef {{ readonly from: string, readonly to: string, readonly waits: readonly Wait[], readonly circular: boolean }} Edge */
/** @typedef {{ readonly id: string, readonly x: number, readonly y: number }} Box x and y: its left upper corner */
/** @typedef {Edge & { readonly path: string, readonly label: string, readonly labelX: number, readonly labelY: number }} DrawnEdge labelX and labelY: the middle */
/** @typedef {{ readonly width: number, readonly height: number, readonly boxes: readonly Box[], readonly edges: readonly DrawnEdge[], readonly left: number }} Picture */
/** @typedef {Pick<typeof import('./dagre.js'), 'Graph' | 'layout'>} Dagre */

export const boxWidth = 184
export const boxHeight = 46
export const labelHeight = 18
const letterWidth = 7
const lettersPerLabel = 24
const margin = 12
/** A graph with more boxes is unreadable: the list says the same. */
const boxesMax = 40
const arrowLength = 6

/**
 * @param {readonly Wait[]} waits
 * @param {Dagre} dagre
 * @returns {Picture}
 */
export function layOut(waits, { Graph, layout }) {
  const edges = edgesOf(waits)
  const all = new Set(edges.flatMap(({ from, to }) => [from, to]))
  const shown = new Set([...all].slice(0, boxesMax))
  const drawn = edges.filter(({ from, to }) => shown.has(from) && shown.has(to))
  const graph = new Graph({ multigraph: true })
  graph.setGraph({ rankdir: 'LR', nodesep: 22, edgesep: 14, ranksep: 34, marginx: margin, marginy: margin })
  graph.setDefaultEdgeLabel(() => ({}))
  for (const id of shown) graph.setNode(id, { width: boxWidth, height: boxHeight })
  for (const edge of drawn) {
    const label = labelOf(edge)
    graph.setEdge(edge.from, edge.to, { width: widthOf(label), height: labelHeight, labelpos: 'c' })
  }
  layout(graph)
  const boxes = [...shown].map((id) => {
    const { x = 0, y = 0 } = graph.node(id)
    return { id, x: x - boxWidth / 2, y: y - boxHeight / 2 }
  })
  const { width = 0, height = 0 } = graph.graph()
  return {
    width: shown.size === 0 ? 0 : width,
    height: shown.size === 0 ? 0 : height,
    boxes,
    edges: drawn.map((edge) => {
      const { points = [], x = 0, y = 0 } = graph.edge(edge.from, edge.to)
      return { ...edge, path: pathThrough(points), label: labelOf(edge), labelX: x, labelY: y }
    }),
    left: all.size - shown.size,
  }
}

/** @param {string} label */
export function widthOf(label) {
  return label.length * letterWidth + 10
}

/** @param {Edge} edge */
function labelOf({ waits: [first, ...others] }) {
  const scope = visible(first?.scope ?? '')
  const short = scope.length > lettersPerLabel ? `${scope.slice(0, lettersPerLabel - 1)}…` : scope
  return others.length === 0 ? short : `${short} +${others.length}`
}

/**
 * A line through the points, its corners rounded, that ends before the last by the length of the arrow's tip.
 * @param {readonly { readonly x: number, readonly y: number }[]} points
 */
function pathThrough(points) {
  const [first, ...others] = points
  const last = others.at(-1)
  if (first === undefined || last === undefined) return ''
  const before = points.at(-2) ?? first
  const length = Math.hypot(last.x - before.x, last.y - before.y) || 1
  const end = {
    x: last.x - ((last.x - before.x) / length) * arrowLength,
    y: last.y - ((last.y - before.y) / length) * arrowLength,
  }
  const corners = others.slice(0, -1)
  const curves = corners.map((corner, index) => {
    const next = corners[index + 1] ?? end
    const to = corners[index + 1] === undefined ? end : { x: (corner.x + next.x) / 2, y: (corner.y + next.y) / 2 }
    return `Q ${at(corner)} ${at(to)}`
  })
  return `M ${at(first)} ${curves.length === 0 ? `L ${at(end)}` : curves.join(' ')}`
}

/** @param {{ readonly x: number, readonly y: number }} point */
function at({ x, y }) {
  return `${Math.round(x * 10) / 10} ${Math.round(y * 10) / 10}`
}

/**
 * One edge for all waits of one owner for another, cycles first. A wait for an earlier place in the queue is left out if the same
 * owner also waits for the holder.
 * @param {readonly Wait[]} waits
 * @returns {Edge[]}
 */
export function edgesOf(waits) {
  const direct = new Set(waits.filter(({ because }) => because === 'holds').map(({ from, key }) => `${from} ${key}`))
  /** @type {Map<string, { from: string, to: string, waits: Wait[], circular: boolean }>} */
  const edges = new Map()
  for (const wait of waits) {
    const { from, to, because, key, circular } = wait
    if (from === to || (because === 'ahead' && !circular && direct.has(`${from} ${key}`))) continue
    const name = `${from} ${to}`
    const edge = edges.get(name) ?? { from, to, waits: [], circular: false }
    edges.set(name, edge)
    edge.waits.push(wait)
    edge.circular ||= circular
  }
  return [...edges.values()].toSorted((left, right) => Number(right.circular) - Number(left.circular))
}

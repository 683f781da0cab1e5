/**
 * Lays out the wait-for graph. An owner that waits is left of the owner it waits for. Cycles are on top, and the edges that close
 * them run back above them. No elements here: all of it can be tested without a browser.
 * @module
 */

/** @typedef {import('../documents.ts').WaitDocument} Wait */
/** @typedef {{ readonly from: string, readonly to: string, readonly waits: readonly Wait[], readonly circular: boolean }} Edge */
/** @typedef {{ readonly id: string, readonly x: number, readonly y: number }} Box */
/** @typedef {Edge & { readonly path: string, readonly labelX: number, readonly labelY: number }} DrawnEdge */
/** @typedef {{ readonly width: number, readonly height: number, readonly boxes: readonly Box[], readonly edges: readonly DrawnEdge[], readonly left: number }} Picture */

export const boxWidth = 184
export const boxHeight = 46
const columnGap = 120
const rowGap = 26
const margin = 12
/** How far above the boxes a back edge runs; each further back edge runs higher. */
const backEdgeHeight = 40
/** A graph with more boxes is unreadable. */
const boxesMax = 24

/**
 * @param {readonly Wait[]} waits
 * @returns {Picture}
 */
export function layOut(waits) {
  const edges = edgesOf(waits)
  const all = new Set(edges.flatMap(({ from, to }) => [from, to]))
  const shown = new Set([...all].slice(0, boxesMax))
  const drawn = edges.filter(({ from, to }) => shown.has(from) && shown.has(to))
  const { ranks, backwards } = rank([...shown], drawn)
  const boxes = placeBoxes(ranks, drawn, backwards.size)
  let height = margin + backwards.size * backEdgeHeight
  const paths = drawn.map((edge) => {
    const from = /** @type {Box} */ (boxes.get(edge.from))
    const to = /** @type {Box} */ (boxes.get(edge.to))
    if (!backwards.has(edge)) return { ...edge, ...forwardPath(from, to) }
    height -= backEdgeHeight
    return { ...edge, ...backwardPath(from, to, height + backEdgeHeight / 2) }
  })
  const placed = [...boxes.values()]
  return {
    width: Math.max(0, ...placed.map(({ x }) => x + boxWidth)) + margin,
    height: Math.max(0, ...placed.map(({ y }) => y + boxHeight)) + margin,
    boxes: placed,
    edges: paths,
    left: all.size - shown.size,
  }
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

/**
 * How many steps each owner is from an owner that does not wait, and the edges that close a cycle.
 * @param {readonly string[]} owners
 * @param {readonly Edge[]} edges
 */
function rank(owners, edges) {
  /** @type {Map<string, number>} */
  const ranks = new Map()
  /** @type {Set<Edge>} */
  const backwards = new Set()
  /** @type {Set<string>} */
  const onPath = new Set()
  /** @param {string} owner @returns {number} */
  const visit = (owner) => {
    const known = ranks.get(owner)
    if (known !== undefined) return known
    onPath.add(owner)
    let steps = 0
    for (const edge of edges) {
      if (edge.from !== owner) continue
      if (onPath.has(edge.to)) backwards.add(edge)
      else steps = Math.max(steps, visit(edge.to) + 1)
    }
    onPath.delete(owner)
    ranks.set(owner, steps)
    return steps
  }
  for (const owner of owners) visit(owner)
  return { ranks, backwards }
}

/**
 * Columns by rank, the holders on the right. In a column each owner is about as high as those it waits for, cycles on top.
 * @param {ReadonlyMap<string, number>} ranks
 * @param {readonly Edge[]} edges
 * @param {number} backEdges
 * @returns {Map<string, Box>}
 */
function placeBoxes(ranks, edges, backEdges) {
  const circular = new Set(edges.filter((edge) => edge.circular).flatMap(({ from, to }) => [from, to]))
  const last = Math.max(0, ...ranks.values())
  const columns = Array.from({ length: last + 1 }, (_, at) => [...ranks].filter(([, steps]) => steps === at))
  const tallest = Math.max(...columns.map((column) => column.length))
  const step = boxHeight + rowGap
  /** @type {Map<string, Box>} */
  const boxes = new Map()
  for (const [steps, column] of columns.entries()) {
    const wanted = column.map(([id], index) => ({
      id,
      at: circular.has(id) ? index - column.length : (heightOf(id, edges, boxes) ?? index * step),
    }))
    const inTheMiddle = ((tallest - column.length) * step) / 2
    const top = margin + (backEdges > 0 ? backEdges * backEdgeHeight : inTheMiddle)
    for (const [index, { id }] of wanted.toSorted((left, right) => left.at - right.at).entries()) {
      boxes.set(id, { id, x: margin + (last - steps) * (boxWidth + columnGap), y: top + index * step })
    }
  }
  return boxes
}

/**
 * @param {string} id
 * @param {readonly Edge[]} edges
 * @param {ReadonlyMap<string, Box>} boxes
 */
function heightOf(id, edges, boxes) {
  const heights = edges.flatMap(({ from, to }) => (from === id ? (boxes.get(to)?.y ?? []) : []))
  return heights.length === 0 ? undefined : heights.reduce((sum, height) => sum + height, 0) / heights.length
}

/**
 * @param {Box} from
 * @param {Box} to
 */
function forwardPath(from, to) {
  const [startX, startY] = [from.x + boxWidth, from.y + boxHeight / 2]
  const [endX, endY] = [to.x - 6, to.y + boxHeight / 2]
  const bend = columnGap / 2
  return {
    path: `M ${startX} ${startY} C ${startX + bend} ${startY} ${endX - bend} ${endY} ${endX} ${endY}`,
    // Near the waiter, as edges to the same box meet there.
    labelX: startX + columnGap / 2 - 6,
    labelY: startY + (endY - startY) * (endX - startX > columnGap ? 0.2 : 0.5) - 5,
  }
}

/**
 * @param {Box} from
 * @param {Box} to
 * @param {number} height where the edge runs back
 */
function backwardPath(from, to, height) {
  const startX = from.x + boxWidth / 2
  const endX = to.x + boxWidth / 2
  const corner = 10
  const up = `M ${startX} ${from.y} L ${startX} ${height + corner} Q ${startX} ${height} ${startX - corner} ${height}`
  const down = `Q ${endX} ${height} ${endX} ${height + corner} L ${endX} ${to.y - 6}`
  return { path: `${up} L ${endX + corner} ${height} ${down}`, labelX: (startX + endX) / 2, labelY: height - 5 }
}

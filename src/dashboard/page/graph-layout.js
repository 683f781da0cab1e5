/**
 * Where owners and the ways between them go in the picture. Whoever waits stands left of whom it waits for. Cycles are on
 * top, and what closes them runs back above them. No elements here: all of it can be tested without a browser.
 * @module
 */

/** @typedef {import('../documents.ts').WaitDocument} Wait */
/** @typedef {{ readonly from: string, readonly to: string, readonly waits: readonly Wait[], readonly circular: boolean }} Way */
/** @typedef {{ readonly id: string, readonly x: number, readonly y: number }} Box */
/** @typedef {Way & { readonly path: string, readonly labelX: number, readonly labelY: number }} DrawnWay */
/** @typedef {{ readonly width: number, readonly height: number, readonly boxes: readonly Box[], readonly ways: readonly DrawnWay[], readonly left: number }} Picture */

export const boxWidth = 184
export const boxHeight = 46
const columnGap = 120
const rowGap = 26
const margin = 12
/** How far above the boxes a way back runs; each further one runs higher. */
const wayBackHeight = 40
/** A picture of more is none. */
const boxesMax = 24

/**
 * @param {readonly Wait[]} waits
 * @returns {Picture}
 */
export function layOut(waits) {
  const ways = waysOf(waits)
  const all = new Set(ways.flatMap(({ from, to }) => [from, to]))
  const shown = new Set([...all].slice(0, boxesMax))
  const drawn = ways.filter(({ from, to }) => shown.has(from) && shown.has(to))
  const { ranks, backwards } = rank([...shown], drawn)
  const boxes = placeBoxes(ranks, drawn, backwards.size)
  let height = margin + backwards.size * wayBackHeight
  const paths = drawn.map((way) => {
    const from = /** @type {Box} */ (boxes.get(way.from))
    const to = /** @type {Box} */ (boxes.get(way.to))
    if (!backwards.has(way)) return { ...way, ...forwardPath(from, to) }
    height -= wayBackHeight
    return { ...way, ...backwardPath(from, to, height + wayBackHeight / 2) }
  })
  const placed = [...boxes.values()]
  return {
    width: Math.max(0, ...placed.map(({ x }) => x + boxWidth)) + margin,
    height: Math.max(0, ...placed.map(({ y }) => y + boxHeight)) + margin,
    boxes: placed,
    ways: paths,
    left: all.size - shown.size,
  }
}

/**
 * One way for all that one owner waits for of another, cycles first. A place in a queue is left out where the same waiter's way
 * to the holder says as much.
 * @param {readonly Wait[]} waits
 * @returns {Way[]}
 */
export function waysOf(waits) {
  const direct = new Set(waits.filter(({ because }) => because === 'holds').map(({ from, key }) => `${from} ${key}`))
  /** @type {Map<string, { from: string, to: string, waits: Wait[], circular: boolean }>} */
  const ways = new Map()
  for (const wait of waits) {
    const { from, to, because, key, circular } = wait
    if (from === to || (because === 'ahead' && !circular && direct.has(`${from} ${key}`))) continue
    const name = `${from} ${to}`
    const way = ways.get(name) ?? { from, to, waits: [], circular: false }
    ways.set(name, way)
    way.waits.push(wait)
    way.circular ||= circular
  }
  return [...ways.values()].toSorted((one, other) => Number(other.circular) - Number(one.circular))
}

/**
 * How many steps each is from somebody who waits for nobody, and the ways that would lead in a cycle.
 * @param {readonly string[]} owners
 * @param {readonly Way[]} ways
 */
function rank(owners, ways) {
  /** @type {Map<string, number>} */
  const ranks = new Map()
  /** @type {Set<Way>} */
  const backwards = new Set()
  /** @type {Set<string>} */
  const onTheWay = new Set()
  /** @param {string} owner @returns {number} */
  const visit = (owner) => {
    const known = ranks.get(owner)
    if (known !== undefined) return known
    onTheWay.add(owner)
    let steps = 0
    for (const way of ways) {
      if (way.from !== owner) continue
      if (onTheWay.has(way.to)) backwards.add(way)
      else steps = Math.max(steps, visit(way.to) + 1)
    }
    onTheWay.delete(owner)
    ranks.set(owner, steps)
    return steps
  }
  for (const owner of owners) visit(owner)
  return { ranks, backwards }
}

/**
 * Columns by rank, the holders on the right; in a column each stands about as high as those it waits for, cycles on top.
 * @param {ReadonlyMap<string, number>} ranks
 * @param {readonly Way[]} ways
 * @param {number} waysBack
 * @returns {Map<string, Box>}
 */
function placeBoxes(ranks, ways, waysBack) {
  const circular = new Set(ways.filter((way) => way.circular).flatMap(({ from, to }) => [from, to]))
  const last = Math.max(0, ...ranks.values())
  const columns = Array.from({ length: last + 1 }, (_, at) => [...ranks].filter(([, steps]) => steps === at))
  const tallest = Math.max(...columns.map((column) => column.length))
  const step = boxHeight + rowGap
  /** @type {Map<string, Box>} */
  const boxes = new Map()
  for (const [steps, column] of columns.entries()) {
    const wanted = column.map(([id], index) => ({
      id,
      at: circular.has(id) ? index - column.length : (heightOf(id, ways, boxes) ?? index * step),
    }))
    const inTheMiddle = ((tallest - column.length) * step) / 2
    const top = margin + (waysBack > 0 ? waysBack * wayBackHeight : inTheMiddle)
    for (const [index, { id }] of wanted.toSorted((one, other) => one.at - other.at).entries()) {
      boxes.set(id, { id, x: margin + (last - steps) * (boxWidth + columnGap), y: top + index * step })
    }
  }
  return boxes
}

/**
 * @param {string} id
 * @param {readonly Way[]} ways
 * @param {ReadonlyMap<string, Box>} boxes
 */
function heightOf(id, ways, boxes) {
  const heights = ways.flatMap(({ from, to }) => (from === id ? (boxes.get(to)?.y ?? []) : []))
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
    // Near the one who waits: ways that end at the same box meet there.
    labelX: startX + columnGap / 2 - 6,
    labelY: startY + (endY - startY) * (endX - startX > columnGap ? 0.2 : 0.5) - 5,
  }
}

/**
 * @param {Box} from
 * @param {Box} to
 * @param {number} height where it runs back
 */
function backwardPath(from, to, height) {
  const startX = from.x + boxWidth / 2
  const endX = to.x + boxWidth / 2
  const corner = 10
  const up = `M ${startX} ${from.y} L ${startX} ${height + corner} Q ${startX} ${height} ${startX - corner} ${height}`
  const down = `Q ${endX} ${height} ${endX} ${height + corner} L ${endX} ${to.y - 6}`
  return { path: `${up} L ${endX + corner} ${height} ${down}`, labelX: (startX + endX) / 2, labelY: height - 5 }
}

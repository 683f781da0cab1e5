/**
 * The wait-for graph: as a picture, and as a list.
 * @module
 */
import { byId, element, shape } from './element.js'
import { boxHeight, boxWidth, layOut } from './graph-layout.js'
import { Elapsed } from './live-times.js'
import { counted, runnerName, runnerPlace, visible } from './wording.js'

/** @typedef {import('../documents.ts').CyclesDocument} Cycles */
/** @typedef {import('../documents.ts').OwnerDocument} Owner */
/** @typedef {import('../documents.ts').WaitDocument} Wait */

const listedMax = 200
const lettersPerLine = 21
const lettersPerLabel = 16

export class WaitsView {
  #read
  #picture = byId('waits-picture')
  #list = byId('waits-list')
  #note = byId('waits-note')
  #alarm = byId('cycles')
  #mark = byId('cycles-mark')

  /** @param {() => Promise<Cycles>} read */
  constructor(read) {
    this.#read = read
  }

  /** Never rejects. */
  async refresh() {
    try {
      this.#show(await this.#read())
    } catch (error) {
      this.#note.textContent = error instanceof Error ? error.message : String(error)
    }
  }

  /** @param {Cycles} found */
  #show({ owners, waits, cycles, truncated }) {
    const byName = new Map(owners.map((owner) => [owner.id, owner]))
    /** @param {string} id */
    const nameOf = (id) => ownerName(byName.get(id))
    this.#mark.hidden = cycles.length === 0
    this.#mark.textContent = cycles.length === 0 ? '' : String(cycles.length)
    this.#alarm.hidden = cycles.length === 0
    this.#alarm.replaceChildren(...cycles.map((cycle) => cycleText(cycle, nameOf)))
    const { left, svg } = drawing(waits, byName)
    this.#picture.replaceChildren(...(waits.length === 0 ? [] : [svg]))
    this.#list.replaceChildren(...waits.slice(0, listedMax).map((wait) => waitItem(wait, nameOf)))
    const beyond = waits.length - listedMax
    const notes = [
      waits.length === 0 ? 'No waits.' : '',
      left > 0 ? `${counted(left, 'owner is', 'owners are')} not shown in the picture.` : '',
      beyond > 0 || truncated ? 'The list is not complete.' : '',
    ]
    this.#note.textContent = notes.filter((text) => text !== '').join(' ')
  }
}

/**
 * @param {Cycles['cycles'][number]} cycle
 * @param {(id: string) => string} nameOf
 */
function cycleText(cycle, nameOf) {
  const steps = cycle.flatMap(({ owner, scope }, index) => [
    index === 0 ? '' : ', ',
    element('strong', {}, nameOf(owner)),
    ' waits for ',
    element('code', {}, visible(scope)),
    ' of ',
    element('strong', {}, nameOf(cycle[(index + 1) % cycle.length]?.owner ?? owner)),
  ])
  return element('p', {}, 'Cycle: ', ...steps, '. None of them can continue until one gives up its lock.')
}

/**
 * @param {Wait} wait
 * @param {(id: string) => string} nameOf
 */
function waitItem({ from, to, because, scope, namespace, sinceMs, circular }, nameOf) {
  const since = new Elapsed()
  since.update(sinceMs)
  return element(
    'li',
    {},
    element('strong', {}, nameOf(from)),
    ' waits for ',
    element('code', { title: visible(namespace) }, visible(scope)),
    because === 'holds' ? ', held by ' : ', behind ',
    element('strong', {}, nameOf(to)),
    element('span', { class: 'quiet' }, ' for ', since.element),
    circular ? ' ' : null,
    circular ? element('span', { class: 'badge', 'data-tone': 'bad' }, 'cycle') : null,
  )
}

/**
 * @param {readonly Wait[]} waits
 * @param {ReadonlyMap<string, Owner>} owners
 */
function drawing(waits, owners) {
  const { width, height, boxes, edges, left } = layOut(waits)
  const inCycle = new Set(edges.filter(({ circular }) => circular).flatMap(({ from, to }) => [from, to]))
  const svg = shape(
    'svg',
    {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: 'img',
      'aria-label': 'Who waits for whom; the list below says the same',
    },
    shape('defs', {}, arrow('arrow'), arrow('arrow-cycle')),
    ...edges.map(({ path, circular, waits: [first] }) =>
      shape('path', {
        d: path,
        class: `edge${circular ? ' circular' : ''}${first?.because === 'ahead' ? ' ahead' : ''}`,
        'marker-end': `url(#${circular ? 'arrow-cycle' : 'arrow'})`,
      }),
    ),
    ...boxes.map(({ id, x, y }) => box(owners.get(id), x, y, inCycle.has(id))),
    ...labels(edges),
  )
  return { svg, left }
}

/**
 * The label of each edge. Edges of one owner for the same lock, such as to all holders of permits, share one label.
 * @param {ReturnType<typeof layOut>['edges']} edges
 */
function labels(edges) {
  const said = new Set()
  return edges.flatMap(({ from, labelX, labelY, waits: [first, ...others], circular }) => {
    const more = others.length === 0 ? '' : ` +${others.length}`
    const text = `${shortened(visible(first?.scope ?? ''), lettersPerLabel)}${more}`
    if (said.has(`${from} ${text}`)) return []
    said.add(`${from} ${text}`)
    return [shape('text', { x: labelX, y: labelY, class: circular ? 'label circular' : 'label' }, text)]
  })
}

/**
 * @param {Owner | undefined} owner
 * @param {number} x
 * @param {number} y
 * @param {boolean} isInCycle
 */
function box(owner, x, y, isInCycle) {
  const name = ownerName(owner)
  const place = owner === undefined ? '' : runnerPlace(owner.runner)
  return shape(
    'g',
    { class: isInCycle ? 'owner circular' : 'owner' },
    shape('title', {}, `${name}, ${place}`),
    shape('rect', { x, y, width: boxWidth, height: boxHeight, rx: 8 }),
    shape('text', { x: x + 12, y: y + 20, class: 'owner-name' }, shortened(name, lettersPerLine)),
    shape('text', { x: x + 12, y: y + 36, class: 'owner-place' }, shortened(place, lettersPerLine + 4)),
  )
}

/** @param {string} id */
function arrow(id) {
  const tip = shape('path', { d: 'M 0 0 L 8 4 L 0 8 z', class: id })
  return shape('marker', { id, markerWidth: 8, markerHeight: 8, refX: 4, refY: 4, orient: 'auto' }, tip)
}

/** @param {Owner | undefined} owner */
function ownerName(owner) {
  if (owner === undefined) return 'somebody'
  return owner.owner === undefined ? runnerName(owner.runner) : visible(owner.owner)
}

/**
 * @param {string} text
 * @param {number} letters
 */
function shortened(text, letters) {
  return text.length > letters ? `${text.slice(0, letters - 1)}…` : text
}

/**
 * The wait-for graph: as a picture, and as a list.
 * @module
 */
import { lockAddress } from './address.js'
import * as dagre from './dagre.js'
import { byId, element, shape } from './element.js'
import { boxHeight, boxWidth, labelHeight, layOut, widthOf } from './graph-layout.js'
import { KeyedChildren } from './keyed-children.js'
import { Elapsed } from './live-times.js'
import { counted, runnerName, runnerPlace, visible } from './wording.js'

/** @typedef {import('../documents.ts').CyclesDocument} Cycles */
/** @typedef {import('../documents.ts').OwnerDocument} Owner */
/** @typedef {import('../documents.ts').WaitDocument} Wait */

const groupsMax = 200
const waitsOfGroupMax = 50
const lettersPerLine = 21

export class WaitsView {
  #read
  #picture = byId('waits-picture')
  #list = byId('waits-list')
  #note = byId('waits-note')
  #alarm = byId('cycles')
  #mark = byId('cycles-mark')
  #found
  #drawn = ''
  /** @type {(id: string) => string} */
  #nameOf = (id) => id
  /** @type {KeyedChildren<WaitGroup>} */
  #groups = new KeyedChildren(
    this.#list,
    ({ name }) => name,
    () => new GroupItem((id) => this.#nameOf(id)),
  )

  /**
   * @param {() => Promise<Cycles>} read
   * @param {(found: Cycles) => void} found
   */
  constructor(read, found) {
    this.#read = read
    this.#found = found
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
    this.#nameOf = nameOf
    const groups = groupsOfWaits(waits)
    this.#groups.show(groups.slice(0, groupsMax))
    // Drawn anew only if it differs: a layout takes long, and whoever looks at it wants it to stand still.
    const graph = JSON.stringify([owners, waits.map((wait) => ({ ...wait, sinceMs: 0 }))])
    if (graph !== this.#drawn && this.#picture.offsetParent !== null) {
      this.#drawn = graph
      const { left, svg } = drawing(waits, byName)
      this.#picture.replaceChildren(...(waits.length === 0 ? [] : [svg]))
      this.#picture.dataset['left'] = String(left)
    }
    const left = Number(this.#picture.dataset['left'] ?? 0)
    const notes = [
      waits.length === 0 ? 'Nobody waits.' : '',
      left > 0 ? `${counted(left, 'owner is', 'owners are')} not shown in the picture.` : '',
      groups.length > groupsMax || truncated ? 'The list is not complete.' : '',
    ]
    this.#note.textContent = notes.filter((text) => text !== '').join(' ')
    this.#found({ owners, waits, cycles, truncated })
  }
}

/** @typedef {{ readonly name: string, readonly waits: readonly Wait[] }} WaitGroup */

/**
 * The waits for one lock of one owner, the longest first in each.
 * @param {readonly Wait[]} waits
 * @returns {WaitGroup[]}
 */
function groupsOfWaits(waits) {
  /** @type {Map<string, Wait[]>} */
  const groups = new Map()
  const direct = new Set(waits.filter(({ because }) => because === 'holds').map(({ from, key }) => `${from} ${key}`))
  for (const wait of waits) {
    const { key, from, to, because, circular } = wait
    // Where the list says already that the owner waits for the holder, its place in the queue says nothing more.
    if (because === 'ahead' && !circular && direct.has(`${from} ${key}`)) continue
    const name = JSON.stringify([key, to, because, circular])
    groups.set(name, [...(groups.get(name) ?? []), wait])
  }
  return [...groups].map(([name, members]) => ({
    name,
    waits: members.toSorted((left, right) => right.sinceMs - left.sinceMs),
  }))
}

/** The waits for one lock of one owner: in one line, and each in its own if it is opened. */
class GroupItem {
  #nameOf
  #line = element('summary')
  #list = element('ol')
  #open = element('details', {}, this.#line, this.#list)
  element = element('li', {}, this.#open)
  /** @type {WaitGroup | undefined} */
  #group

  /** @param {(id: string) => string} nameOf */
  constructor(nameOf) {
    this.#nameOf = nameOf
    this.#open.addEventListener('toggle', () => this.#showWaits())
  }

  /** @param {WaitGroup} group */
  update(group) {
    this.#group = group
    const [first] = group.waits
    if (first === undefined) return
    const { key, scope, namespace, to, from, because, sinceMs, circular } = first
    const since = new Elapsed()
    since.update(sinceMs)
    const many = group.waits.length > 1
    this.#line.replaceChildren(
      element('strong', {}, many ? counted(group.waits.length, 'owner') : this.#nameOf(from)),
      many ? ' wait for ' : ' waits for ',
      element('code', { title: visible(namespace) }, visible(scope)),
      because === 'holds' ? ', held by ' : ', behind ',
      element('strong', {}, this.#nameOf(to)),
      element('span', { class: 'quiet' }, many ? ', the longest for ' : ' for ', since.element),
      circular ? ' ' : '',
      circular ? element('span', { class: 'badge', 'data-tone': 'bad' }, 'deadlock') : '',
    )
    if (this.#open.nextElementSibling === null) this.element.append(element('a', {}, 'Open the lock'))
    this.#open.nextElementSibling?.setAttribute('href', lockAddress(key))
    this.#showWaits()
  }

  #showWaits() {
    if (this.#group === undefined || !this.#open.open) return
    const { waits } = this.#group
    const hidden = waits.length - waitsOfGroupMax
    this.#list.replaceChildren(
      ...waits.slice(0, waitsOfGroupMax).map(({ from, sinceMs }) => {
        const since = new Elapsed()
        since.update(sinceMs)
        return element('li', {}, this.#nameOf(from), element('span', { class: 'quiet' }, ' for ', since.element))
      }),
      ...(hidden > 0 ? [element('li', { class: 'quiet' }, `and ${hidden} more`)] : []),
    )
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
  return element(
    'p',
    {},
    'Deadlock: ',
    ...steps,
    '. None of them can go on until one gives up its lock: evict one of them.',
  )
}

/**
 * @param {readonly Wait[]} waits
 * @param {ReadonlyMap<string, Owner>} owners
 */
function drawing(waits, owners) {
  const { width, height, boxes, edges, left } = layOut(waits, dagre)
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
 * The label of each edge, on a background that hides the edge behind it.
 * @param {ReturnType<typeof layOut>['edges']} edges
 */
function labels(edges) {
  return edges.flatMap(({ label, labelX, labelY, circular }) => {
    const width = widthOf(label)
    const place = {
      x: labelX - width / 2,
      y: labelY - labelHeight / 2,
      width,
      height: labelHeight,
      rx: 4,
      class: 'label-back',
    }
    return [
      shape('rect', place),
      shape('text', { x: labelX, y: labelY + 4, class: circular ? 'label circular' : 'label' }, label),
    ]
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

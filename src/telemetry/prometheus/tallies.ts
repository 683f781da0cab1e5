import type { Locks } from '../../api/locks.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { EventName, LockEvent, LockEvents } from '../../api/client/events.ts'
import { checkLabels, type Family, type Labels, type Distribution } from '../exposition.ts'
import { Listening } from '../listening.ts'
import { countedEvents, secondsOf, timings, usualFailures, type CountedEvent } from '../measures.ts'

/** The labels that we set ourselves. @internal */
export const ownLabels: ReadonlySet<string> = new Set(['namespace', 'code', 'outcome', 'state', 'le'])

/** How what happens is counted. */
export interface TallyOptions {
  /**
   * Labels of what is counted, by its event. There is a time series for every set of values ever given, in this process
   * and in Prometheus: kinds of locks are few enough for that, their names are not.
   */
  readonly labels?: (event: LockEvent) => Labels
  /** Upper bounds of the histograms, in seconds. */
  readonly buckets?: { readonly wait?: readonly number[]; readonly hold?: readonly number[] }
}

interface Count {
  value: number
}

/** One event's tally, and how long took what it ended. */
interface Tally {
  readonly counted: CountedEvent
  readonly counts: Series<Count>
  readonly times: Series<Histogram> | undefined
}

/** Counts the events of one client from now on. @internal */
export class Tallies implements Disposable {
  readonly #labels: TallyOptions['labels']
  readonly #taken: ReadonlySet<string>
  readonly #tallies: readonly Tally[]
  readonly #listening: Listening

  constructor(locks: Locks, common: Labels, { labels, buckets = {} }: TallyOptions) {
    const bounds = {
      wait: checkBuckets(buckets.wait ?? timings.wait.buckets, 'buckets.wait'),
      hold: checkBuckets(buckets.hold ?? timings.hold.buckets, 'buckets.hold'),
    }
    this.#labels = labels
    this.#taken = new Set([...ownLabels, ...Object.keys(common)])
    this.#tallies = countedEvents.map((counted): Tally => {
      const { event, ends } = counted
      const counts = new Series(common, (): Count => ({ value: 0 }))
      const times = ends && new Series({ ...common, outcome: event }, () => new Histogram(bounds[ends]))
      return { counted, counts, times }
    })
    // What is known before it happens starts at nought: a rate needs a value to rise from.
    if (labels === undefined) this.#tallies.forEach(startAtNought)
    this.#listening = new Listening(locks)
    for (const tally of this.#tallies) this.#listening.on(tally.counted.event, (event) => this.#onEvent(tally, event))
  }

  families(): Family[] {
    return [...this.#tallies.map(counterOf), this.#timesOf('wait'), this.#timesOf('hold')]
  }

  [Symbol.dispose](): void {
    this.#listening[Symbol.dispose]()
  }

  /** Counts in every case. What is wrong with the caller's labels goes to the logger, as with every listener. */
  #onEvent({ counts, times }: Tally, event: LockEvents[EventName]): void {
    let labels = noLabels
    try {
      if (this.#labels !== undefined) labels = givenLabels(this.#labels(event), this.#taken)
    } finally {
      counts.of('code' in event ? { ...labels, code: event.code } : labels).value += 1
      times?.of(labels).observe(secondsOf(event) ?? 0)
    }
  }

  #timesOf(what: 'wait' | 'hold'): Family {
    const { name, help } = timings[what]
    const series = this.#tallies.filter(({ counted }) => counted.ends === what).flatMap(({ times }) => times ?? [])
    const samples = series.flatMap((each) => each.map(({ distribution }, labels) => ({ labels, ...distribution })))
    return { name: `leasehold_${name}_seconds`, help, type: 'histogram', samples }
  }
}

function counterOf({ counted, counts }: Tally): Family {
  const { name, help } = counted
  const samples = counts.map(({ value }, labels) => ({ labels, value }))
  return { name: `leasehold_${name}_total`, help, type: 'counter', samples }
}

function startAtNought({ counted, counts, times }: Tally): void {
  times?.of(noLabels)
  if (counted.event !== 'failed') counts.of(noLabels)
  else for (const code of usualFailures) counts.of({ code })
}

/** A caller's labels, if Prometheus takes them and none of them is taken. @internal */
export function givenLabels(labels: Labels, taken: ReadonlySet<string>): Labels {
  const clash = Object.keys(checkLabels(labels)).find((name) => taken.has(name))
  if (clash === undefined) return labels
  throw new LeaseholdError('INVALID', `There is a label "${clash}" already. Call yours something else.`)
}

/** Counts values by their size. @internal */
export class Histogram {
  readonly #bounds: readonly number[]
  /** How many are in each bucket and in none before; the last is for those beyond every bound. */
  readonly #counts: number[]
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0)
  }

  observe(value: number): void {
    const fits = this.#bounds.findIndex((bound) => value <= bound)
    const bucket = fits < 0 ? this.#bounds.length : fits
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sum += value
  }

  /** As it is published: each bucket has also what is in those before it. */
  get distribution(): Omit<Distribution, 'labels'> {
    let count = 0
    const upTo = this.#counts.map((each) => (count += each))
    return { buckets: this.#bounds.map((le, index) => ({ le, count: upTo[index] ?? 0 })), sum: this.#sum, count }
  }
}

/** Throws INVALID unless the bounds are increasing numbers. @internal */
export function checkBuckets(bounds: readonly number[], what: string): readonly number[] {
  const rise = bounds.every((bound, index) => index === 0 || bound > (bounds[index - 1] ?? Infinity))
  if (bounds.length > 0 && bounds.every(Number.isFinite) && rise) return [...bounds]
  throw new LeaseholdError('INVALID', `${what} must be one or more numbers of seconds, each above the one before.`)
}

/** No labels but those that every series has. @internal */
export const noLabels: Labels = Object.freeze({})

/** One tally for each set of labels. @internal */
export class Series<Item> {
  readonly #common: Labels
  readonly #start: () => Item
  readonly #tallies = new Map<string, { readonly labels: Labels; readonly tally: Item }>()
  #plain: Item | undefined

  constructor(common: Labels, start: () => Item) {
    this.#common = common
    this.#start = start
  }

  /** The tally of these labels besides the common ones. It is published from now on. */
  of(labels: Labels): Item {
    if (labels !== noLabels) return this.#find(labels)
    this.#plain ??= this.#find(labels)
    return this.#plain
  }

  /** What `publish` makes of each tally, with all its labels. */
  map<Published>(publish: (tally: Item, labels: Labels) => Published): Published[] {
    return [...this.#tallies.values()].map(({ labels, tally }) => publish(tally, labels))
  }

  #find(labels: Labels): Item {
    // In whatever order they are given, they are the same labels.
    const sorted = Object.entries(labels).toSorted(([one], [other]) => (one < other ? -1 : 1))
    const id = JSON.stringify(sorted)
    const known = this.#tallies.get(id)
    if (known !== undefined) return known.tally
    const tally = this.#start()
    this.#tallies.set(id, { labels: { ...this.#common, ...Object.fromEntries(sorted) }, tally })
    return tally
  }
}

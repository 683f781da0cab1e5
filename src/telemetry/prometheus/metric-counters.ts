import type { Locks } from '../../api/locks.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { EventName, LockEvent, LockEvents } from '../../api/client/events.ts'
import { checkLabels, type Family, type Labels, type Distribution } from '../exposition.ts'
import { EventSubscriptions } from '../event-subscriptions.ts'
import { countedEvents, secondsOf, timings, usualFailures, type CountedEvent } from '../measures.ts'

/** Labels that Leasehold sets itself. @internal */
export const ownLabels: ReadonlySet<string> = new Set(['namespace', 'code', 'outcome', 'state', 'le'])

/** How events are counted. */
export interface MetricCounterOptions {
  /**
   * Labels of a counted event. Every set of values becomes a time series, in this process and in Prometheus: label by the
   * kind of a lock, not by its name.
   */
  readonly labels?: (event: LockEvent) => Labels
  /** Upper bounds of the histograms, in seconds. */
  readonly buckets?: { readonly wait?: readonly number[]; readonly hold?: readonly number[] }
}

interface Count {
  value: number
}

/** The count of one event, and the histogram of the waits or holds it ended. */
interface MetricCounter {
  readonly counted: CountedEvent
  readonly counts: Series<Count>
  readonly times: Series<Histogram> | undefined
}

/** Counts the events of one client from now on. @internal */
export class MetricCounters implements Disposable {
  readonly #labels: MetricCounterOptions['labels']
  readonly #taken: ReadonlySet<string>
  readonly #counters: readonly MetricCounter[]
  readonly #subscriptions: EventSubscriptions

  constructor(locks: Locks, common: Labels, { labels, buckets = {} }: MetricCounterOptions) {
    const bounds = {
      wait: checkBuckets(buckets.wait ?? timings.wait.buckets, 'buckets.wait'),
      hold: checkBuckets(buckets.hold ?? timings.hold.buckets, 'buckets.hold'),
    }
    this.#labels = labels
    this.#taken = new Set([...ownLabels, ...Object.keys(common)])
    this.#counters = countedEvents.map((counted): MetricCounter => {
      const { event, ends } = counted
      const counts = new Series(common, (): Count => ({ value: 0 }))
      const times = ends && new Series({ ...common, outcome: event }, () => new Histogram(bounds[ends]))
      return { counted, counts, times }
    })
    // Known series start at zero, because a rate needs a first value. With custom labels the series are not known.
    if (labels === undefined) this.#counters.forEach(startAtZero)
    this.#subscriptions = new EventSubscriptions(locks)
    for (const counter of this.#counters)
      this.#subscriptions.on(counter.counted.event, (event) => this.#onEvent(counter, event))
  }

  families(): Family[] {
    return [...this.#counters.map(counterOf), this.#timesOf('wait'), this.#timesOf('hold')]
  }

  [Symbol.dispose](): void {
    this.#subscriptions[Symbol.dispose]()
  }

  /** Counts even if the caller's `labels` throws; that error goes to the logger, as with every listener. */
  #onEvent({ counts, times }: MetricCounter, event: LockEvents[EventName]): void {
    let labels = noLabels
    try {
      if (this.#labels !== undefined) labels = givenLabels(this.#labels(event), this.#taken)
    } finally {
      counts.of('code' in event ? { ...labels, code: event.code } : labels).value += 1
      times?.of(labels).observe(secondsOf(event) ?? 0)
    }
  }

  #timesOf(kind: 'wait' | 'hold'): Family {
    const { name, help } = timings[kind]
    const series = this.#counters.filter(({ counted }) => counted.ends === kind).flatMap(({ times }) => times ?? [])
    const samples = series.flatMap((each) => each.map(({ distribution }, labels) => ({ labels, ...distribution })))
    return { name: `leasehold_${name}_seconds`, help, type: 'histogram', samples }
  }
}

function counterOf({ counted, counts }: MetricCounter): Family {
  const { name, help } = counted
  const samples = counts.map(({ value }, labels) => ({ labels, value }))
  return { name: `leasehold_${name}_total`, help, type: 'counter', samples }
}

function startAtZero({ counted, counts, times }: MetricCounter): void {
  times?.of(noLabels)
  if (counted.event !== 'failed') counts.of(noLabels)
  else for (const code of usualFailures) counts.of({ code })
}

/** The labels of a caller. Throws INVALID if Prometheus does not allow one, or if it is taken. @internal */
export function givenLabels(labels: Labels, taken: ReadonlySet<string>): Labels {
  const clash = Object.keys(checkLabels(labels)).find((name) => taken.has(name))
  if (clash === undefined) return labels
  throw new LeaseholdError('INVALID', `The label "${clash}" is taken. Choose another name.`)
}

/** A histogram: counts values by bucket. */
class Histogram {
  readonly #bounds: readonly number[]
  /** Values in each bucket, not cumulative; the last is for values above every bound. */
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

  /** The published form: buckets are cumulative. */
  get distribution(): Omit<Distribution, 'labels'> {
    let count = 0
    const upTo = this.#counts.map((each) => (count += each))
    return { buckets: this.#bounds.map((le, index) => ({ le, count: upTo[index] ?? 0 })), sum: this.#sum, count }
  }
}

/** Throws INVALID unless the bounds are finite and rising. */
export function checkBuckets(bounds: readonly number[], option: string): readonly number[] {
  const rise = bounds.every((bound, index) => index === 0 || bound > (bounds[index - 1] ?? Infinity))
  if (bounds.length > 0 && bounds.every(Number.isFinite) && rise) return [...bounds]
  throw new LeaseholdError('INVALID', `${option} must be one or more numbers of seconds, each above the one before.`)
}

/** No labels besides the common ones. */
export const noLabels: Labels = Object.freeze({})

/** One counter or histogram for each set of labels. */
class Series<Item> {
  readonly #common: Labels
  readonly #start: () => Item
  readonly #counters = new Map<string, { readonly labels: Labels; readonly counter: Item }>()
  #plain: Item | undefined

  constructor(common: Labels, start: () => Item) {
    this.#common = common
    this.#start = start
  }

  /** The item with these labels besides the common ones. It is published from now on. */
  of(labels: Labels): Item {
    if (labels !== noLabels) return this.#find(labels)
    this.#plain ??= this.#find(labels)
    return this.#plain
  }

  /** Maps each item and its labels, common ones included. */
  map<Published>(publish: (counter: Item, labels: Labels) => Published): Published[] {
    return [...this.#counters.values()].map(({ labels, counter }) => publish(counter, labels))
  }

  #find(labels: Labels): Item {
    // The order of labels does not matter.
    const sorted = Object.entries(labels).toSorted(([first], [second]) => (first < second ? -1 : 1))
    const id = JSON.stringify(sorted)
    const known = this.#counters.get(id)
    if (known !== undefined) return known.counter
    const counter = this.#start()
    this.#counters.set(id, { labels: { ...this.#common, ...Object.fromEntries(sorted) }, counter })
    return counter
  }
}

import type { Client } from '../../api/client/client.ts'
import type { Locks } from '../../api/locks.ts'
import { internalsOf } from '../../api/client/locks-internals.ts'
import type { EventName, LockEvent, LockEvents } from '../../api/client/events.ts'
import { EventSubscriptions } from '../event-subscriptions.ts'
import { countedEvents, gauges, secondsOf, timings, type Measure } from '../measures.ts'
import type { Attributes, Counter, HistogramInstrument, Meter, Observable, Observation } from './interface.ts'
import { readClient, StoreReader, type StoreReadingOptions } from '../readings.ts'

/** How events are counted by a meter. */
export interface InstrumentsOptions extends StoreReadingOptions {
  /**
   * Attributes of a counted event. Every set of values becomes a time series: use the kind of a lock, not its name.
   */
  readonly attributes?: (event: LockEvent) => Attributes
}

/** The metrics of one client, as instruments of a meter. @internal */
export class Instruments implements Disposable {
  readonly #client: Client
  readonly #meter: Meter
  readonly #common: Attributes
  readonly #attributes: InstrumentsOptions['attributes']
  readonly #store: StoreReader | undefined
  readonly #gauges: Readonly<Record<keyof typeof gauges, Observable>>
  readonly #observe = (result: Observation): Promise<void> => this.#observeAll(result)
  readonly #subscriptions: EventSubscriptions

  constructor(locks: Locks, meter: Meter, options: InstrumentsOptions) {
    this.#client = internalsOf(locks, 'openTelemetry').client
    this.#meter = meter
    this.#common = { 'leasehold.namespace': locks.namespace }
    this.#attributes = options.attributes
    this.#store = options.store === false ? undefined : new StoreReader(locks, options.storeWithin)
    this.#gauges = {
      leasesHeld: this.#gauge(gauges.leasesHeld),
      heartbeats: this.#gauge(gauges.heartbeats),
      pending: this.#gauge(gauges.pending),
      remaining: this.#gauge(gauges.remaining),
      locks: this.#gauge(gauges.locks),
      up: this.#gauge(gauges.up),
    }
    const times = { wait: this.#histogram(timings.wait), hold: this.#histogram(timings.hold) }
    const counted = countedEvents.map((measure) => {
      const counter = meter.createCounter(`leasehold.${measure.name}`, wordsOf(measure))
      return { measure, counter, histogram: measure.ends && times[measure.ends] }
    })
    // Subscribe last, so that a meter that throws leaves no listener behind.
    meter.addBatchObservableCallback(this.#observe, Object.values(this.#gauges))
    this.#subscriptions = new EventSubscriptions(locks)
    for (const { measure, counter, histogram } of counted) {
      this.#subscriptions.on(measure.event, (event) => this.#onEvent(measure.event, event, counter, histogram))
    }
  }

  [Symbol.dispose](): void {
    this.#subscriptions[Symbol.dispose]()
    this.#meter.removeBatchObservableCallback(this.#observe, Object.values(this.#gauges))
  }

  /** Counts even if the caller's `attributes` throws; that error goes to the logger, as with every listener. */
  #onEvent(
    name: EventName,
    event: LockEvents[EventName],
    counter: Counter,
    histogram: HistogramInstrument | undefined,
  ): void {
    let attributes = this.#common
    try {
      if (this.#attributes !== undefined) attributes = { ...this.#attributes(event), ...attributes }
    } finally {
      counter.add(1, 'code' in event ? { ...attributes, 'error.type': event.code } : attributes)
      histogram?.record(secondsOf(event) ?? 0, { ...attributes, 'leasehold.outcome': name })
    }
  }

  async #observeAll(result: Observation): Promise<void> {
    const observe = (gauge: Observable, value: number, more?: Attributes): void =>
      result.observe(gauge, value, { ...this.#common, ...more })
    const { leasesHeld, heartbeats, pending, remaining, locks, up } = this.#gauges
    const client = readClient(this.#client)
    observe(leasesHeld, client.leasesHeld)
    observe(heartbeats, client.heartbeats)
    observe(pending, client.pending)
    if (client.remainingSeconds !== undefined) observe(remaining, client.remainingSeconds)
    if (this.#store === undefined) return
    const found = await this.#store.read()
    observe(up, found === undefined ? 0 : 1)
    if (found === undefined) return
    observe(locks, found.activeLocks, { 'leasehold.state': 'active' })
    observe(locks, found.staleLocks, { 'leasehold.state': 'stale' })
  }

  #gauge(measure: Measure): Observable {
    return this.#meter.createObservableGauge(`leasehold.${measure.name}`, wordsOf(measure))
  }

  #histogram(measure: Measure & { readonly buckets: readonly number[] }): HistogramInstrument {
    const advice = { explicitBucketBoundaries: [...measure.buckets] }
    return this.#meter.createHistogram(`leasehold.${measure.name}`, { ...wordsOf(measure), advice })
  }
}

function wordsOf({ help, unit }: Measure): { description: string; unit: string } {
  return { description: help, unit }
}

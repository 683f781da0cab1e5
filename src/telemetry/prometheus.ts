import type { Client } from '../api/client/client.ts'
import type { Locks } from '../api/locks.ts'
import { internalsOf } from '../api/client/locks-internals.ts'
import { checkOptions, type OptionNames } from '../core/contract/option-names.ts'
import { contentType, exposition, type Family, type Labels } from './exposition.ts'
import { gauges, type Measure } from './measures.ts'
import { readClient, StoreReader, type StoreReadingOptions } from './readings.ts'
import { givenLabels, ownLabels, MetricCounters, type MetricCounterOptions } from './prometheus/metric-counters.ts'

export { contentType, exposition } from './exposition.ts'
export type { Distribution, Family, Labels, Sample } from './exposition.ts'
export type { StoreReadingOptions } from './readings.ts'
export type { MetricCounterOptions } from './prometheus/metric-counters.ts'

/** The options of `prometheus`. */
export interface PrometheusOptions extends MetricCounterOptions, StoreReadingOptions {
  /** Labels of every metric, to distinguish clients of one process and namespace. */
  readonly commonLabels?: Labels | undefined
}

const prometheusNames: OptionNames<PrometheusOptions> = {
  commonLabels: true,
  labels: true,
  buckets: true,
  store: true,
  storeWithin: true,
}
const bucketNames: OptionNames<NonNullable<PrometheusOptions['buckets']>> = { wait: true, hold: true }

/** The metrics of one client, for Prometheus to scrape. */
export interface Prometheus extends Disposable {
  /** The `Content-Type` of the response. */
  readonly contentType: string
  /** The current metrics. Does not reject if the store is down: `leasehold_up` is then 0. */
  text(): Promise<string>
  /** The current metrics as data, to combine several clients with `exposition`. */
  families(): Promise<Family[]>
}

/**
 * Counts the events of `locks` from now on until it is disposed of. Does not close `locks`.
 *
 * @example
 * ```ts
 * import { createServer } from 'node:http'
 * import { connect } from 'leasehold'
 * import { prometheus } from 'leasehold/prometheus'
 *
 * const locks = await connect('memory:')
 * const metrics = prometheus(locks, { labels: ({ scope }) => ({ kind: scope.split('/')[0] ?? '' }) })
 * createServer(async (_request, response) => {
 *   response.setHeader('content-type', metrics.contentType)
 *   response.end(await metrics.text())
 * }).listen(9464)
 * ```
 */
export function prometheus(locks: Locks, options: PrometheusOptions = {}): Prometheus {
  checkOptions(options, prometheusNames, 'prometheus')
  checkOptions(options.buckets, bucketNames, 'buckets')
  return new Metrics(locks, options)
}

class Metrics implements Prometheus {
  readonly contentType = contentType
  readonly #client: Client
  readonly #common: Labels
  readonly #store: StoreReader | undefined
  readonly #counters: MetricCounters

  constructor(locks: Locks, options: PrometheusOptions) {
    this.#client = internalsOf(locks, 'prometheus').client
    this.#common = { namespace: locks.namespace, ...givenLabels(options.commonLabels ?? {}, ownLabels) }
    this.#store = options.store === false ? undefined : new StoreReader(locks, options.storeWithin)
    this.#counters = new MetricCounters(locks, this.#common, options)
  }

  async text(): Promise<string> {
    return exposition(await this.families())
  }

  async families(): Promise<Family[]> {
    const ofStore = await this.#readStore()
    // Read the client before the counters: reading may detect an expired lease, which counts as lost.
    const ofClient = this.#readClient()
    return [...this.#counters.families(), ...ofClient, ...ofStore]
  }

  [Symbol.dispose](): void {
    this.#counters[Symbol.dispose]()
  }

  #readClient(): Family[] {
    const { leasesHeld, heartbeats, pending, remainingSeconds } = readClient(this.#client)
    return [
      this.#gauge(gauges.leasesHeld, [{ value: leasesHeld }]),
      this.#gauge(gauges.heartbeats, [{ value: heartbeats }]),
      this.#gauge(gauges.pending, [{ value: pending }]),
      this.#gauge(gauges.remaining, remainingSeconds === undefined ? [] : [{ value: remainingSeconds }]),
    ]
  }

  async #readStore(): Promise<Family[]> {
    if (this.#store === undefined) return []
    const found = await this.#store.read()
    if (found === undefined) return [this.#gauge(gauges.up, [{ value: 0 }])]
    const active = { labels: { state: 'active' }, value: found.activeLocks }
    const stale = { labels: { state: 'stale' }, value: found.staleLocks }
    return [this.#gauge(gauges.up, [{ value: 1 }]), this.#gauge(gauges.locks, [active, stale])]
  }

  #gauge({ name, help, unit }: Measure, values: readonly { labels?: Labels; value: number }[]): Family {
    const samples = values.map(({ labels, value }) => ({ labels: { ...this.#common, ...labels }, value }))
    return { name: `leasehold_${name}${unit === 's' ? '_seconds' : ''}`, help, type: 'gauge', samples }
  }
}

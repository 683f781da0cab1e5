import type { Locks } from '../api/locks.ts'
import { LeaseholdError } from '../core/errors.ts'
import { checkOptions, type OptionNames } from '../core/contract/option-names.ts'
import { Instruments, type InstrumentsOptions } from './opentelemetry/instruments.ts'
import type { Meter, Tracer } from './opentelemetry/interface.ts'
import { Spans, type SpansOptions } from './opentelemetry/spans.ts'

export type { InstrumentsOptions } from './opentelemetry/instruments.ts'
export type * from './opentelemetry/interface.ts'
export type { StoreReadingOptions } from './readings.ts'
export type { SpansOptions } from './opentelemetry/spans.ts'

/** What `openTelemetry` tells, to whom and how. */
export interface OpenTelemetryOptions<Context = unknown> extends InstrumentsOptions, SpansOptions<Context> {
  /** Of `metrics.getMeter('leasehold')`, for counters, histograms and gauges. */
  readonly meter?: Meter | undefined
  /** Of `trace.getTracer('leasehold')`, for spans. */
  readonly tracer?: Tracer<Context> | undefined
}

const openTelemetryNames: OptionNames<OpenTelemetryOptions> = {
  meter: true,
  tracer: true,
  attributes: true,
  parent: true,
  store: true,
  storeWithin: true,
}

/**
 *  * Tells OpenTelemetry what `locks`, which stay yours to close, do from now on until it is disposed of. What a meter or a
 * tracer throws meanwhile goes to the logger of `locks` and reaches no lock.
 *
 * @example
 * ```ts
 * import { metrics, trace } from '@opentelemetry/api'
 * import { connect } from 'leasehold'
 * import { openTelemetry } from 'leasehold/opentelemetry'
 *
 * await using locks = await connect('memory:')
 * using telemetry = openTelemetry(locks, {
 *   meter: metrics.getMeter('leasehold'),
 *   tracer: trace.getTracer('leasehold'),
 * })
 * ```
 */
export function openTelemetry<Context = unknown>(locks: Locks, options: OpenTelemetryOptions<Context>): Disposable {
  checkOptions(options, openTelemetryNames, 'openTelemetry')
  const { meter, tracer } = options
  if (meter === undefined && tracer === undefined) {
    throw new LeaseholdError('INVALID', 'openTelemetry needs a meter, a tracer or both.')
  }
  const instruments = meter && new Instruments(locks, meter, options)
  const spans = tracer && new Spans(locks, tracer, options)
  return {
    [Symbol.dispose]: () => {
      spans?.[Symbol.dispose]()
      instruments?.[Symbol.dispose]()
    },
  }
}

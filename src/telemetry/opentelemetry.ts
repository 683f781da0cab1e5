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

/** The options of `openTelemetry`. */
export interface OpenTelemetryOptions<Context = unknown> extends InstrumentsOptions, SpansOptions<Context> {
  /** The meter for counters, histograms and gauges: `metrics.getMeter('leasehold')`. */
  readonly meter?: Meter | undefined
  /** The tracer for spans: `trace.getTracer('leasehold')`. */
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
 * Reports the events of `locks` to OpenTelemetry from now on until it is disposed of. Does not close `locks`. An error of
 * the meter or the tracer goes to the logger of `locks` and affects no lock.
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

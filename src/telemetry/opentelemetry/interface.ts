/** Attributes of a measurement or a span. */
export type Attributes = Readonly<Record<string, string | number>>

/** The options of a new instrument. */
export interface InstrumentOptions {
  readonly description: string
  readonly unit: string
  readonly advice?: { readonly explicitBucketBoundaries?: number[] }
}

/** The part of a `Counter` that is used. */
export interface Counter {
  add(value: number, attributes: Attributes): void
}

/** The part of a `Histogram` that is used. */
export interface HistogramInstrument {
  record(value: number, attributes: Attributes): void
}

/** An observable instrument. It is only passed back to the SDK. */
export type Observable = object

/** Receives the values that a batch callback observes. */
export interface Observation {
  observe(observable: Observable, value: number, attributes: Attributes): void
}

/** The part of a `Meter` of `@opentelemetry/api` that is used. */
export interface Meter {
  createCounter(name: string, options: InstrumentOptions): Counter
  createHistogram(name: string, options: InstrumentOptions): HistogramInstrument
  createObservableGauge(name: string, options: InstrumentOptions): Observable
  addBatchObservableCallback(callback: (result: Observation) => Promise<void>, observables: Observable[]): void
  removeBatchObservableCallback(callback: (result: Observation) => Promise<void>, observables: Observable[]): void
}

/** A time as OpenTelemetry takes it: seconds since 1970, and nanoseconds. */
export type HrTime = [seconds: number, nanoseconds: number]

/** The part of a `Span` that is used. */
export interface Span {
  setAttribute(name: string, value: string | number): unknown
  addEvent(name: string, attributes: Attributes, time: HrTime): unknown
  setStatus(status: { readonly code: number; readonly message?: string }): unknown
  end(time: HrTime): void
}

/** The options of a new span. */
export interface SpanOptions {
  readonly root?: boolean
  readonly attributes: Attributes
  readonly startTime: HrTime
}

/** The part of a `Tracer` of `@opentelemetry/api` that is used. */
export interface Tracer<Context> {
  startSpan(name: string, options: SpanOptions, context?: Context): Span
}

/** Attributes of a measurement or a span. */
export type Attributes = Readonly<Record<string, string | number>>

/** What is said of an instrument when it is made. */
export interface InstrumentOptions {
  readonly description: string
  readonly unit: string
  readonly advice?: { readonly explicitBucketBoundaries?: number[] }
}

/** What is used of a `Counter`. */
export interface Counter {
  add(value: number, attributes: Attributes): void
}

/** What is used of a `Histogram`. */
export interface HistogramInstrument {
  record(value: number, attributes: Attributes): void
}

/** Something whose value is asked for. What it can do is between the SDK and itself. */
export type Observable = object

/** Takes the values that a callback of a meter observes. */
export interface Observation {
  observe(observable: Observable, value: number, attributes: Attributes): void
}

/** What is used of a `Meter` of `@opentelemetry/api`. */
export interface Meter {
  createCounter(name: string, options: InstrumentOptions): Counter
  createHistogram(name: string, options: InstrumentOptions): HistogramInstrument
  createObservableGauge(name: string, options: InstrumentOptions): Observable
  addBatchObservableCallback(callback: (result: Observation) => Promise<void>, observables: Observable[]): void
  removeBatchObservableCallback(callback: (result: Observation) => Promise<void>, observables: Observable[]): void
}

/** Seconds since 1970, and nanoseconds. */
export type HrTime = [seconds: number, nanoseconds: number]

/** What is used of a `Span`. */
export interface Span {
  setAttribute(name: string, value: string | number): unknown
  addEvent(name: string, attributes: Attributes, time: HrTime): unknown
  setStatus(status: { readonly code: number; readonly message?: string }): unknown
  end(time: HrTime): void
}

/** What is said of a span when it is started. */
export interface SpanOptions {
  readonly root?: boolean
  readonly attributes: Attributes
  readonly startTime: HrTime
}

/** What is used of a `Tracer` of `@opentelemetry/api`. */
export interface Tracer<Context> {
  startSpan(name: string, options: SpanOptions, context?: Context): Span
}

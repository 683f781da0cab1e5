import type { Client } from '../../api/client/client.ts'
import type { Locks } from '../../api/locks.ts'
import { internalsOf } from '../../api/client/locks-internals.ts'
import type { LockEvent, LockEvents } from '../../api/client/events.ts'
import { EventSubscriptions } from '../event-subscriptions.ts'
import type { Attributes, HrTime, Span, Tracer } from './interface.ts'

/** OpenTelemetry's `SpanStatusCode.ERROR`. */
const failedStatus = 2

/** The open span of a held lease, and its start by the wall clock. */
interface OpenHold {
  readonly span: Span
  readonly sinceMs: number
}

/** How spans are created. */
export interface SpansOptions<Context> {
  /**
   * The parent context of a span. The active context is of no use: it is that of the code which read the store's reply.
   *
   * @default none
   */
  readonly parent?: (event: LockEvent) => Context | undefined
}

/** Creates a span for each held lease, and one for each failed acquisition. @internal */
export class Spans<Context> implements Disposable {
  readonly #client: Client
  readonly #tracer: Tracer<Context>
  readonly #parent: SpansOptions<Context>['parent']
  readonly #holds = new Map<string, OpenHold>()
  readonly #subscriptions: EventSubscriptions

  constructor(locks: Locks, tracer: Tracer<Context>, options: SpansOptions<Context>) {
    this.#client = internalsOf(locks, 'openTelemetry').client
    this.#tracer = tracer
    this.#parent = options.parent
    this.#subscriptions = new EventSubscriptions(locks)
      .on('acquired', (event) => this.#acquired(event))
      .on('takeover', (event) => this.#note('takeover', event, { 'leasehold.after': event.after.how }))
      .on('renewal-failed', (event) => this.#note('renewal-failed', event))
      .on('jeopardy', (event) => this.#note('jeopardy', event, { 'leasehold.reason': event.reason }))
      .on('leaving', (event) => this.#note('leaving', event, { 'leasehold.reason': event.reason }))
      .on('released', (event) => this.#ended('released', event))
      .on('passed-on', (event) => this.#ended(event.how, event))
      .on('lost', (event) => this.#ended('lost', event, event.reason))
      .on('failed', (event) => this.#failed(event))
  }

  /** Ends the open spans. Their leases are still held, but their end will not be recorded. */
  [Symbol.dispose](): void {
    this.#subscriptions[Symbol.dispose]()
    const now = hrTime(this.#nowMs())
    for (const { span } of this.#holds.values()) {
      try {
        span.setAttribute('leasehold.ended', 'not yet')
        span.end(now)
      } catch {
        // A broken span must not keep the others open.
      }
    }
    this.#holds.clear()
  }

  #acquired(event: LockEvents['acquired']): void {
    const sinceMs = this.#nowMs()
    const attributes = { 'leasehold.fence': event.fence, 'leasehold.wait': event.waitMs / 1000 }
    const span = this.#start('leasehold.hold', event, sinceMs, attributes)
    this.#holds.set(holdOf(event), { span, sinceMs })
  }

  #note(name: string, event: LockEvent & { readonly fence: number }, attributes: Attributes = {}): void {
    this.#holds.get(holdOf(event))?.span.addEvent(`leasehold.${name}`, attributes, hrTime(this.#nowMs()))
  }

  #ended(how: string, event: LockEvents['released' | 'lost' | 'passed-on'], loss?: string): void {
    const hold = this.#holds.get(holdOf(event))
    if (hold === undefined) return
    this.#holds.delete(holdOf(event))
    const { span, sinceMs } = hold
    try {
      span.setAttribute('leasehold.ended', how)
      if (loss !== undefined) {
        span.setAttribute('error.type', 'LOST')
        span.setStatus({ code: failedStatus, message: `LOST: ${loss}` })
      }
    } finally {
      // Add the held time to the start: the wall clock may have been set meanwhile.
      span.end(hrTime(sinceMs + event.heldMs))
    }
  }

  #failed(event: LockEvents['failed']): void {
    const nowMs = this.#nowMs()
    const attributes = { 'error.type': event.code, 'leasehold.attempts': event.attempts }
    const span = this.#start('leasehold.acquire', event, nowMs - event.waitMs, attributes)
    try {
      span.setStatus({ code: failedStatus, message: event.code })
    } finally {
      span.end(hrTime(nowMs))
    }
  }

  #start(name: string, event: LockEvent, startMs: number, attributes: Attributes): Span {
    const parent = this.#parent?.(event)
    const common = {
      'leasehold.namespace': this.#client.namespace,
      'leasehold.scope': event.scope,
      'leasehold.key': event.key,
    }
    const options = { attributes: { ...common, ...attributes }, startTime: hrTime(startMs) }
    if (parent !== undefined) return this.#tracer.startSpan(name, options, parent)
    // Without `root`, the span would become a child of an unrelated active span.
    return this.#tracer.startSpan(name, { ...options, root: true })
  }

  #nowMs(): number {
    return this.#client.environment.wall()
  }
}

/** Identifies a lease: a fence is unique within its key. */
function holdOf({ key, fence }: { readonly key: string; readonly fence: number }): string {
  return `${fence} ${key}`
}

function hrTime(milliseconds: number): HrTime {
  const seconds = Math.floor(milliseconds / 1000)
  return [seconds, Math.floor((milliseconds - seconds * 1000) * 1e6)]
}

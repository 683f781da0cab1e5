import type { Succession } from '../../core/contract/driver.ts'
import { LeaseholdError, messageOf, type ErrorCode } from '../../core/errors.ts'
import { type OptionNames, nearest } from '../../core/contract/option-names.ts'

/** The fields of every event. */
export interface LockEvent {
  /** The scope, as people write it. */
  readonly scope: string
  readonly key: string
}

interface HeldEvent extends LockEvent {
  readonly fence: number
}

/** The events of a client, by name. */
export interface LockEvents {
  /** Queued behind others. Emitted again when the place in the queue is known to have changed. */
  waiting: LockEvent & { readonly ahead: number }
  /** Somebody else held the lock when we asked. Once an acquisition. */
  contention: LockEvent
  acquired: HeldEvent & { readonly waitMs: number; readonly attempts: number }
  /** The holder before us ended uncleanly: its work may be half done. */
  takeover: HeldEvent & { readonly after: Succession }
  /** The holder before us had fallen silent: it expired, died, or was taken for stale. */
  stale: LockEvent & { readonly after: Succession }
  renewed: HeldEvent & { readonly renewals: number; readonly remainingMs: number }
  'renewal-failed': HeldEvent & { readonly error: unknown; readonly remainingMs: number }
  /** A third of the lease is left: it has not been renewed, or may not be held any longer (`max-hold`). */
  jeopardy: HeldEvent & { readonly reason: string; readonly remainingMs: number }
  /** Asked to leave: the lease will not be extended. */
  leaving: HeldEvent & { readonly reason: string; readonly remainingMs: number }
  lost: HeldEvent & { readonly reason: string; readonly heldMs: number }
  released: HeldEvent & { readonly heldMs: number }
  /** The lease is over and its lock is still held: by the lease it was converted to, or by the process that resumes it. */
  'passed-on': HeldEvent & { readonly how: 'converted' | 'handed-off'; readonly heldMs: number }
  /** An acquisition ended without a lease. */
  failed: LockEvent & { readonly code: ErrorCode; readonly waitMs: number; readonly attempts: number }
}

/** The name of an event. */
export type EventName = keyof LockEvents
/** Is called with an event. What it throws, or rejects with, goes to the logger. */
export type LockEventListener<Name extends EventName> = (event: LockEvents[Name]) => unknown

const eventNames: OptionNames<LockEvents> = {
  waiting: true,
  contention: true,
  acquired: true,
  takeover: true,
  stale: true,
  renewed: true,
  'renewal-failed': true,
  jeopardy: true,
  leaving: true,
  lost: true,
  released: true,
  'passed-on': true,
  failed: true,
}

/** The listeners of each event. One that throws does not affect the others. @internal */
export class Events {
  readonly #listeners = new Map<EventName, Set<(event: never) => void>>()
  readonly #complain: (message: string) => void

  constructor(complain: (message: string) => void) {
    this.#complain = complain
  }

  on<Name extends EventName>(name: Name, listener: LockEventListener<Name>): Disposable {
    if (!Object.hasOwn(eventNames, name)) throw noEvent(name)
    if (typeof listener !== 'function') throw new LeaseholdError('INVALID', `on('${name}') needs a function to call.`)
    let listeners = this.#listeners.get(name)
    if (listeners === undefined) this.#listeners.set(name, (listeners = new Set()))
    listeners.add(listener)
    return { [Symbol.dispose]: () => void listeners.delete(listener) }
  }

  /** Whether the event has listeners: if not, it need not be made. */
  wants(name: EventName): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0
  }

  emit<Name extends EventName>(name: Name, event: LockEvents[Name]): void {
    for (const listener of this.#listeners.get(name) ?? []) {
      callForeign(
        () => (listener as LockEventListener<Name>)(event),
        (error) => this.#complain(`A listener for '${name}' threw: ${messageOf(error)}`),
      )
    }
  }
}

function noEvent(name: unknown): LeaseholdError {
  const names = Object.keys(eventNames)
  const meant = typeof name === 'string' ? nearest(name, names) : undefined
  const hint = meant === undefined ? '' : ` Did you mean '${meant}'?`
  return new LeaseholdError(
    'INVALID',
    `There is no event ${JSON.stringify(name)}.${hint} The events are ${names.join(', ')}.`,
  )
}

/**
 * Calls a function of the user, such as a listener. If it throws, or the promise that it returns rejects, the error goes to
 * `complain` and nowhere else.
 */
export function callForeign(call: () => unknown, complain: (error: unknown) => void): void {
  try {
    const result = call()
    if (typeof (result as PromiseLike<unknown> | undefined)?.then === 'function') {
      Promise.resolve(result).catch(complain)
    }
  } catch (error) {
    complain(error)
  }
}

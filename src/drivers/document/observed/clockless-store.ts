import type { ListQuery, Supports } from '../../../core/contract/driver.ts'
import type { LeaseholdError } from '../../../core/errors.ts'
import type { ObservedDocument } from './observed-document.ts'

/** A document as stored, with what the store needs to notice that it has changed since. */
export interface LoadedObserved<Revision> {
  readonly document: ObservedDocument | undefined
  readonly revision: Revision
  /** This key could not be read, though others could. */
  readonly error?: LeaseholdError | undefined
}

/** The outcome of one swap: `written` if the store tells the new revision. `unknown`: the document may or may not have been written. */
export type ObservedOutcome<Revision> =
  | 'swapped'
  | 'conflict'
  | { readonly written: Revision }
  | { readonly unknown: unknown }

/** A document to be written if its revision is unchanged. */
export interface SwapObserved<Revision> {
  readonly key: string
  readonly document: ObservedDocument
  readonly revision: Revision
  /** Nobody holds or waits: the store may remove the document a day after this write. */
  readonly idle: boolean
}

/** The part of a store without a clock that one `send` needs. */
export interface ObservedSwapper<Revision> {
  /** Reads the keys, each as it is now: never an older copy. `withinMs`: how long that may take, where a `send` has an end. */
  load(keys: readonly string[], withinMs?: number): Promise<readonly LoadedObserved<Revision>[]>
  /** Writes each document whose revision is unchanged. */
  swap(swaps: readonly SwapObserved<Revision>[], withinMs?: number): Promise<readonly ObservedOutcome<Revision>[]>
  /**
   * The revision of a key without a document. If it is given, a claim on an unknown key is first tried as on one without a document,
   * and a key that was just written is not read again: for stores where a lost race costs no more than a reading.
   */
  readonly absentRevision?: Revision
  /** Tells the driver with this channel that a claim of its own has changed. A hint: it may fail or be lost. */
  notify?(channel: string, notified: NotifiedOwner): void
}

/** A claim that has changed without its owner's asking. */
export interface NotifiedOwner {
  readonly key: string
  readonly id: string
}

/** A store without a clock that `documentDriver` makes a driver of. */
export interface ClocklessStore<Revision> extends ObservedSwapper<Revision> {
  /** Tells it from a store that has a clock. */
  readonly clock: 'none'
  readonly name: string
  readonly supports: Supports
  /** How often waiters read their keys. @default from 50 ms to 1 s, and 10 keys a second */
  readonly polling?: ClocklessPolling | undefined
  /** How long one `send` may take; where short leases are renewed, a third of their ttl at most. @default no limit */
  readonly sendTimeoutMs?: number | undefined
  /** What an operator should know of this store, as `open` found it. */
  readonly warnings?: readonly string[]
  open(): Promise<void>
  close(): Promise<void>
  /** Receives what `notify` sends to this channel, from `open` to `close`. `onGap`: some of it may have been lost. */
  listen?(channel: string, onNotified: (notified: NotifiedOwner) => void, onGap: () => void): void
  /** Stored documents, in the store's order. */
  list(query: ListQuery): Promise<{
    readonly documents: readonly { readonly key: string; readonly document: ObservedDocument }[]
    readonly next?: string
  }>
  /** The error a user sees for one of the store's. @default errors of Leasehold as they are, others as UNAVAILABLE */
  errorOf?(error: unknown): LeaseholdError
}

/** How often the keys that claims of this process wait for are read. */
export interface ClocklessPolling {
  readonly minMs: number
  readonly maxMs: number
  /** A budget for all keys together. With more keys than it allows, a crash is noticed later. */
  readonly keysPerSecondMax: number
}

import type { Mode, Range } from '../../core/contract/driver.ts'

interface Timed {
  /** Milliseconds of a clock that all processes of the history share, such as `monotonicMs()`. */
  readonly at: number
}

/** What an acquire asks for, as far as the checker cares. */
export interface LoggedWish {
  readonly key: string
  readonly mode: Mode
  readonly limit?: number | undefined
  readonly range?: Range | undefined
  /** Default: 0. */
  readonly priority?: number | undefined
  /** The acquire may pass the queue by right: a conversion, or one that turns holders out. */
  readonly jumps?: boolean | undefined
  /** The attempt that was granted the lease which this one takes over, by hand-off: the two have one fence. */
  readonly resumes?: string | undefined
}

/**
 * One line of a history. `attempt` names one call of acquire and all that follows from it; `client` the process, or
 * whatever is killed and paused as one.
 */
export type HistoryEvent = Timed &
  (
    | ({ readonly type: 'acquire'; readonly client: string; readonly attempt: string } & LoggedWish)
    /** The store has queued the claim; written again if the place was lost and the claim queued anew. */
    | { readonly type: 'queued'; readonly attempt: string }
    /** The acquire returned a lease that its holder trusts until `deadline`. */
    | { readonly type: 'granted'; readonly attempt: string; readonly fence: number; readonly deadline?: number }
    /** The acquire returned without a lease: timed out, aborted, refused, failed. */
    | { readonly type: 'refused'; readonly attempt: string }
    | { readonly type: 'renewed'; readonly attempt: string; readonly deadline: number }
    /** The holder has checked the lease, and it was valid. */
    | { readonly type: 'checked'; readonly attempt: string }
    | { readonly type: 'lost'; readonly attempt: string }
    /** Release was called: the hold is no longer certain. */
    | { readonly type: 'release'; readonly attempt: string }
    | { readonly type: 'released'; readonly attempt: string }
    /** The process is about to be killed. Written by the process that kills it. */
    | { readonly type: 'crash'; readonly client: string }
    /** The process is about to be stopped for a while. */
    | { readonly type: 'pause'; readonly client: string }
  )

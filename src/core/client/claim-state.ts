import type { Backoff } from '../time/backoff.ts'
import type { Claim, Request, ClaimStatus, Succession, Notification, AbsentStatus } from '../contract/driver.ts'

/**
 * asking: sent, not answered. waiting: queued. held. lost: ended against its owner's will. releasing: being given back,
 * or cleared away after an outcome that is not known. over: nothing is left to do.
 */
export type ClaimPhase = 'asking' | 'waiting' | 'held' | 'lost' | 'releasing' | 'over'

/**
 * Times that are kept are whole milliseconds, rounded to the safe side: a fraction would be an object of its own in every
 * life, and most of what is left to be collected after a renewal.
 */
export interface ClaimState {
  readonly phase: ClaimPhase
  readonly claim: Claim
  /** In force: `renew` may have changed it. */
  readonly ttlMs: number
  /** How often to renew; Infinity: only when asked to. */
  readonly heartbeatMs: number
  /** How to ask while waiting if the store cannot push. */
  readonly polling: Backoff | undefined
  /** A whole number from 0 to 100, see {@link jitterOf}. */
  readonly jitter: number
  /** When the request was sent that the claim was granted by, or that it last stood waiting by. Its hold is younger. */
  readonly grantSentAt: number
  /** When the request was sent whose answer gave the claim its present end. */
  readonly sentAt: number
  /** When the present end of the claim, as the store told it, can no longer be trusted. */
  readonly deadline: number
  /**
   * The shortest ttl of those requests that were never answered: one of them may be carried out yet. Undefined: all were. Not
   * Infinity, which every lease would keep in a number of its own.
   */
  readonly doubtMs: number | undefined
  /** The shortest ttl that another thread may be asking for; undefined if it asks for none. */
  readonly elsewhereMs: number | undefined
  /** When a request of this thread was last answered. */
  readonly answeredAt: number
  /** When to renew or ask next. */
  readonly nextAt: number
  /** A claim or renewal is on its way. */
  readonly inFlight: boolean
  /** Ask once more when the one on its way is answered. */
  readonly askAgain: boolean
  /** Failed renewals, or unanswered polls, in a row. */
  readonly failures: number
  readonly lastError: unknown
  /** When a third of the lease is all that is left. Infinity once the owner has been warned. */
  readonly dangerAt: number
  readonly leaving: string | undefined
  /** Whether another claim is to take this one's place. In doubt: the store no longer knows this one, so it may have. */
  readonly converting: 'no' | 'under way' | 'in doubt'
  /** The longest hold of a lease that came of another by conversion. The store counts from the conversion's own grant. */
  readonly hold: LongestHold | undefined
  /** It is no longer waited for: whatever is sent next asks the store to forget it, unless it is held. */
  readonly withdrawn: boolean
}

/** A life that nobody has seen yet. */
export type ClaimStateDraft = { -readonly [Field in keyof ClaimState]: ClaimState[Field] }

/** A copy to change before it is anybody's life. Written out: Node 20 takes twenty times as long to spread it. */
export function copyState(state: ClaimState): ClaimStateDraft {
  return {
    phase: state.phase,
    claim: state.claim,
    ttlMs: state.ttlMs,
    heartbeatMs: state.heartbeatMs,
    polling: state.polling,
    jitter: state.jitter,
    grantSentAt: state.grantSentAt,
    sentAt: state.sentAt,
    deadline: state.deadline,
    doubtMs: state.doubtMs,
    elsewhereMs: state.elsewhereMs,
    answeredAt: state.answeredAt,
    nextAt: state.nextAt,
    inFlight: state.inFlight,
    askAgain: state.askAgain,
    failures: state.failures,
    lastError: state.lastError,
    dangerAt: state.dangerAt,
    leaving: state.leaving,
    converting: state.converting,
    hold: state.hold,
    withdrawn: state.withdrawn,
  }
}

export type ClaimEvent =
  /** A claim, a renewal or a withdrawal sent at `sentAt` was answered. `random` is a random number from 0 to 1. */
  | {
      readonly type: 'answer'
      readonly at: number
      readonly sentAt: number
      /** The ttl that was asked for; Infinity if none was. */
      readonly askedMs: number
      readonly status: ClaimStatus
      readonly random: number
      /** Another thread asked: a request of our own may be under way all the same. */
      readonly elsewhere?: boolean
    }
  /** What another thread may be asking for has changed. */
  | { readonly type: 'elsewhere'; readonly at: number; readonly ttlMs: number | undefined }
  | { readonly type: 'release-answer'; readonly at: number; readonly status: ClaimStatus; readonly random: number }
  | { readonly type: 'notified'; readonly at: number; readonly notification: Notification }
  /** Time has passed. */
  | { readonly type: 'tick'; readonly at: number }
  /** The owner lets go, or no longer wants to wait. */
  | { readonly type: 'release'; readonly at: number }
  /** The owner of a conversion no longer wants to wait for it. */
  | { readonly type: 'withdraw'; readonly at: number }
  | { readonly type: 'renew'; readonly at: number; readonly ttlMs: number }
  | { readonly type: 'heartbeat'; readonly at: number; readonly everyMs: number }
  /** A claim of this ttl, which is to take this one's place, is being sent. Undefined: it has come to nothing. */
  | { readonly type: 'converting'; readonly at: number; readonly ttlMs: number | undefined }
  /** Another claim has taken this one's place, or another process follows it: not ours any more, and not ended. */
  | { readonly type: 'pass-on'; readonly at: number }

export type ClaimEffect =
  | { readonly type: 'send'; readonly request: Request }
  | { readonly type: 'granted'; readonly fence: number; readonly after: Succession | undefined; readonly at: number }
  | { readonly type: 'queued'; readonly ahead: number }
  /** Not granted, and no claim is left behind. */
  | { readonly type: 'refused'; readonly status: AbsentStatus }
  /** Whether it was granted is not known; it is being released. */
  | { readonly type: 'failed'; readonly error: unknown }
  /** `own`: a request of this thread was answered, and not one of the heartbeat thread. */
  | { readonly type: 'renewed'; readonly own: boolean }
  | { readonly type: 'renewal-failed'; readonly error: unknown; readonly own: boolean }
  /** A request of this thread was answered with what was known already. */
  | { readonly type: 'answered-late' }
  | { readonly type: 'jeopardy'; readonly reason: string; readonly leftMs: number }
  | { readonly type: 'leaving'; readonly reason: string; readonly leftMs: number }
  | { readonly type: 'lost'; readonly reason: string; readonly detail: string | undefined }
  /** The store's word on the release; `unknown` if it gave none yet. */
  | { readonly type: 'released'; readonly status: ClaimStatus; readonly at: number }

export type Stepped = readonly [ClaimState, readonly ClaimEffect[]]

/** Until when a claim may be held at most, and the shortest ttl that the store takes. */
export interface LongestHold {
  readonly until: number
  readonly ttlMinMs: number
}

export interface RenewalPolicy {
  readonly heartbeatMs: number
  readonly polling: Backoff | undefined
  readonly jitter: number
  readonly hold?: LongestHold | undefined
}

/** Nothing to do. */
export const noEffects: readonly ClaimEffect[] = []

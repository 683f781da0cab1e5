import type { Backoff } from '../time/backoff.ts'
import type { Claim, Request, ClaimStatus, Succession, Notification, AbsentStatus } from '../contract/driver.ts'

/**
 * asking: sent, not answered. waiting: queued. held. lost: ended against its owner's will. releasing: being released, by
 * its owner or because its outcome is not known. over: nothing is left to do.
 */
export type ClaimPhase = 'asking' | 'waiting' | 'held' | 'lost' | 'releasing' | 'over'

/**
 * A claim as its client knows it. Times are whole milliseconds, rounded to the safe side: a fraction would be an object of
 * its own in every claim state, and most of the garbage of a renewal.
 */
export interface ClaimState {
  readonly phase: ClaimPhase
  readonly claim: Claim
  /** The ttl in force: `renew` may have changed it. */
  readonly ttlMs: number
  /** How often to renew; Infinity: only when the owner asks for it. */
  readonly heartbeatMs: number
  /** How to poll while waiting, if the store cannot push. */
  readonly polling: Backoff | undefined
  /** A whole number from 0 to 100, see {@link jitterOf}. */
  readonly jitter: number
  /** When the request was sent whose answer granted the claim, or that was answered last before a pushed grant. */
  readonly grantSentAt: number
  /** When the request was sent whose answer set the present end of the claim. */
  readonly sentAt: number
  /** Until when the answered end of the claim can be trusted. */
  readonly deadline: number
  /**
   * The shortest ttl of the requests that were never answered, any of which may still be carried out. Undefined: all were
   * answered. Not Infinity, which would be an object of its own in every claim state.
   */
  readonly doubtMs: number | undefined
  /** The shortest ttl for which another thread may be renewing; undefined: none does. */
  readonly elsewhereMs: number | undefined
  /** When a request of this thread was last answered. */
  readonly answeredAt: number
  /** When to renew or poll next. */
  readonly nextAt: number
  /** A claim or renewal is on its way. */
  readonly inFlight: boolean
  /** Renew once more when the request on its way is answered. */
  readonly askAgain: boolean
  /** Failed renewals, or unanswered polls, in a row. */
  readonly failures: number
  readonly lastError: unknown
  /** When a third of the lease is all that is left. Infinity once the owner has been warned. */
  readonly dangerAt: number
  readonly leaving: string | undefined
  /** Whether a conversion is to take this claim's place. In doubt: the store no longer knows the claim, so it may have. */
  readonly converting: 'no' | 'under way' | 'in doubt'
  /** The longest hold of a lease that came of a conversion: the store counts from the grant of the conversion only. */
  readonly hold: LongestHold | undefined
  /** The owner no longer waits for the claim: unless it is held, the next request withdraws it. */
  readonly withdrawn: boolean
}

/** A claim state that may still be changed. */
export type ClaimStateDraft = { -readonly [Field in keyof ClaimState]: ClaimState[Field] }

/** A copy to change before it is used. Written out: Node 20 takes twenty times as long to spread it. */
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

/** What can happen to a claim. `at` is the time on the client's clock. */
export type ClaimEvent =
  /** A claim, a renewal or a withdrawal sent at `sentAt` was answered. `random` is a random number from 0 to 1. */
  | {
      readonly type: 'answer'
      readonly at: number
      readonly sentAt: number
      /** The ttl of the request; Infinity if it has none. */
      readonly askedMs: number
      readonly status: ClaimStatus
      readonly random: number
      /** Another thread sent the request: a request of this thread may still be under way. */
      readonly elsewhere?: boolean
    }
  /** The ttl for which another thread may be renewing has changed. */
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
  /** A conversion of this ttl, which is to take the claim's place, is being sent. Undefined: it was given up. */
  | { readonly type: 'converting'; readonly at: number; readonly ttlMs: number | undefined }
  /** A conversion has taken the claim's place, or another process follows it: no longer ours, and not ended. */
  | { readonly type: 'pass-on'; readonly at: number }

/** What a step asks its runtime to do, or to tell the observer. */
export type ClaimEffect =
  | { readonly type: 'send'; readonly request: Request }
  | { readonly type: 'granted'; readonly fence: number; readonly after: Succession | undefined; readonly at: number }
  | { readonly type: 'queued'; readonly ahead: number }
  /** Not granted, and no claim is left behind. */
  | { readonly type: 'refused'; readonly status: AbsentStatus }
  /** Whether the claim was granted is not known; it is being released. */
  | { readonly type: 'failed'; readonly error: unknown }
  /** `own`: the request was sent by this thread, not by the heartbeat thread. */
  | { readonly type: 'renewed'; readonly own: boolean }
  | { readonly type: 'renewal-failed'; readonly error: unknown; readonly own: boolean }
  /** A request of this thread was answered, and a newer status was known already. */
  | { readonly type: 'answered-late' }
  | { readonly type: 'jeopardy'; readonly reason: string; readonly leftMs: number }
  | { readonly type: 'leaving'; readonly reason: string; readonly leftMs: number }
  | { readonly type: 'lost'; readonly reason: string; readonly detail: string | undefined }
  /** The store's answer to the release; `unknown` if there is none yet. */
  | { readonly type: 'released'; readonly status: ClaimStatus; readonly at: number }

/** The claim state after an event, and the effects of the step. */
export type Stepped = readonly [ClaimState, readonly ClaimEffect[]]

/** Until when a claim may be held at most, and the shortest ttl that the store takes. */
export interface LongestHold {
  readonly until: number
  readonly ttlMinMs: number
}

/** How a claim is renewed and polled for; see the fields of {@link ClaimState}. */
export interface RenewalPolicy {
  readonly heartbeatMs: number
  readonly polling: Backoff | undefined
  readonly jitter: number
  readonly hold?: LongestHold | undefined
}

/** No effects: nothing to do. */
export const noEffects: readonly ClaimEffect[] = []

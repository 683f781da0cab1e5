/**
 * The waist of Leasehold: what the client asks of a store, and what a store answers.
 *
 * A driver moves requests to a store and statuses back. It holds no policy: the rule in `core/rule/admission.ts` decides
 * which claims hold, run by the store itself or in one atomic step beside it. Everything above (waiting, renewing,
 * deadlines, retries) lives in the client and is the same for every driver.
 */
import type { Backoff } from '../time/backoff.ts'

/** Shared claims may be held together, an exclusive one alone. */
export type Mode = 'exclusive' | 'shared'

/** A half-open range of bytes: `start` is in, `end` is out. */
export interface Range {
  readonly start: number
  readonly end: number
}

/** The process that owns a claim. For people, and for the `same-runner` rule; never proof that the process is alive. */
export interface Runner {
  /** Unique per process, unless a name was given: then the same across restarts. */
  readonly id: string
  /** Different for every process, also for two that run one after the other under the same name. */
  readonly incarnation: string
  readonly host: string
  readonly pid: number
  /** The client (one `connect`) inside the process. */
  readonly client: string
  /** On whose behalf the claim is made: claims of one owner must not wait for each other; see deadlock detection. */
  readonly owner?: string | undefined
  /**
   * The scope keys that the owner held when it made a claim that may wait, so that deadlock detection finds who waits for the owner.
   * Absent: none. `requestBounds.holdsMax` of them: there may be more.
   */
  readonly holds?: readonly string[] | undefined
  /** Metadata of the caller and of the runner. JSON only. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
}

/**
 * Which holders a claim may take the place of.
 * `stale`: holders not renewed for `staleMs` are ended at once, and the queue moves on.
 * `lower-priority`: holders of lower priority are asked to leave; renewals no longer extend their leases.
 * `same-runner`: holders of the same runner id are ended at once, and this claim takes their place.
 * `all`: every conflicting holder is ended at once, and this claim takes their place.
 */
export type EvictRule = 'stale' | 'lower-priority' | 'same-runner' | 'all'

/** One place in a key's queue, as its owner asks for it. Holders and waiters are both claims. */
export interface Claim {
  /** Unguessable, made by the client, never used for two attempts: it makes every request safe to send twice. */
  readonly id: string
  readonly key: string
  readonly mode: Mode
  /** Most shared holders at once; absent: no limit. Only with mode `shared`. */
  readonly limit?: number | undefined
  /** Absent: the whole key, which overlaps every range. */
  readonly range?: Range | undefined
  /** The id of a held claim whose place this claim takes when granted: how a lease is upgraded or downgraded. */
  readonly replaces?: string | undefined
  /** Higher goes first. A whole number from -1000 to 1000. */
  readonly priority: number
  /** False: answer `refused` rather than queue. */
  readonly wait: boolean
  readonly evict?: EvictRule | undefined
  /** With `evict: 'stale'`: how long a holder must have been silent. */
  readonly staleMs?: number | undefined
  readonly ttlMs: number
  /** How long after an unclean end the claim goes on blocking others. */
  readonly graceMs: number
  /** The longest the claim may be held, renewed or not. */
  readonly maxHoldMs?: number | undefined
  /** True: the claim is meant to outlive its process, so a store that sees the process die must not end it early. */
  readonly detached?: boolean | undefined
  readonly runner: Runner
}

/** What the client asks. Every request may be sent twice. */
export type Request =
  | { readonly op: 'claim'; readonly claim: Claim }
  /**
   * Sets the claim's end to the store's now plus `ttlMs`, for holders and waiters alike, and asks for its status.
   * `fenceFloor` lifts the claim's fence, and all later ones of its key, to at least that number.
   * `detached` changes whether the claim may outlive its process.
   */
  | {
      readonly op: 'renew'
      readonly key: string
      readonly id: string
      readonly ttlMs: number
      readonly fenceFloor?: number | undefined
      readonly detached?: boolean | undefined
    }
  /** Ends a claim, held or waiting, and promotes the waiters that this makes room for. */
  | { readonly op: 'release'; readonly key: string; readonly id: string }
  /**
   * Ends a waiting claim. A claim that is held by now stays, and is answered as such. For conversions: to release a granted
   * conversion would release its owner's only lease.
   */
  | { readonly op: 'withdraw'; readonly key: string; readonly id: string }
  /** Ends the holder with this fence, for operators, who know fences and never ids. */
  | { readonly op: 'evict'; readonly key: string; readonly fence: number; readonly reason: string }

/** How the last holder of a key ended, told to the holder that took over from it. */
export interface Succession {
  /** `died`: the store saw the process end. The others as in {@link AbsentReason}. */
  readonly how: 'expired' | 'died' | 'evicted' | 'max-hold'
  /** With `evicted`: what evicted it. Absent: not known, as an older version noted the end. */
  readonly cause?: EvictionCause | undefined
  readonly fence: number
  readonly runner: Runner
}

/** What evicted a holder: a claim's evict rule (`stale`, `same-runner`: `reclaimed`, `all`: `forced`), or an `evict` request. */
export type EvictionCause = 'stale' | 'reclaimed' | 'forced' | 'operator'

/** Why a store does not have a claim. */
export type AbsentReason =
  /** The claim did not want to wait. */
  | 'refused'
  /** The claim was not renewed in time. */
  | 'expired'
  /** Its owner released it. */
  | 'released'
  /** It was evicted: `detail` says why. */
  | 'evicted'
  /** It was held for `maxHoldMs`. */
  | 'max-hold'
  /** It would have waited for ever: another conversion waits for it already. */
  | 'deadlock'
  /** Its limit differs from the limit of the holders. */
  | 'mismatch'
  /** The store knows nothing of this claim. Always a possible answer. */
  | 'unknown'

/** The status of a claim. It only ever moves from waiting to held to absent. */
export type ClaimStatus =
  | {
      readonly state: 'held'
      /** Higher than all fences that the key had before. Another key may have the same fence. */
      readonly fence: number
      /** What is left of the lease, by the store's clock, when it answered. */
      readonly ttlMs: number
      /** Set once the holder has been asked to leave, with the reason: renewing no longer extends the lease. */
      readonly leaving?: string | undefined
      /** How the last holder ended, if it ended uncleanly. */
      readonly after?: Succession | undefined
    }
  | {
      readonly state: 'waiting'
      /** How many claims wait in front of this one, including ended ones that the store has not noticed. */
      readonly ahead: number
      readonly ttlMs: number
      /** When to poll if no notification arrives. */
      readonly againMs: number
    }
  | { readonly state: 'absent'; readonly reason: AbsentReason; readonly detail?: string }
  /** Whether the request was carried out is not known. */
  | { readonly state: 'unknown'; readonly error: unknown }

/** The status of a claim that is held. */
export type HeldStatus = Extract<ClaimStatus, { state: 'held' }>
/** The status of a claim that waits. */
export type WaitingStatus = Extract<ClaimStatus, { state: 'waiting' }>
/** The status of a claim that the store does not have, or no longer. */
export type AbsentStatus = Extract<ClaimStatus, { state: 'absent' }>

/** What ends a claim besides its release: see {@link Supports.lifetime}. */
export type ClaimLifetime = 'lease' | 'connection'

/** What a driver can do. The client refuses the rest with UNSUPPORTED, and never imitates it. */
export interface Supports {
  readonly shared: boolean
  readonly limit: boolean
  readonly range: boolean
  /** The store keeps waiters in order. Without it the client tries again by its `retry` option. */
  readonly queue: boolean
  /** Statuses are pushed through `listen`. Without it waiters poll, with a growing pause. */
  readonly push: boolean
  readonly priority: boolean
  /** Claims with `replaces`. */
  readonly convert: boolean
  /** The evict rules. Empty: the request `evict` is not carried out either. */
  readonly evict: readonly EvictRule[]
  readonly grace: boolean
  readonly maxHold: boolean
  /** The fence grows for ever, not only while the store keeps its data. */
  readonly fence: boolean
  /** The shortest ttl of a claim and of a renewal. The batcher and `withinLimits` (`limits.ts`) refuse all others. */
  readonly ttlMinMs: number
  readonly ttlMaxMs: number
  /** The longest `graceMs`, `maxHoldMs` and `staleMs`. Default: a year. */
  readonly durationMaxMs?: number
  /** The longest ttl and grace together, of a claim and of its renewals. Default: whatever each may be. */
  readonly ttlAndGraceMaxMs?: number
  /** The highest `fenceFloor` of a renewal, where the store takes less than others do: see `bounds.ts`. */
  readonly fenceFloorMax?: number
  /** The ttl, and below the heartbeat, to use when the caller names none. */
  readonly ttlDefaultMs?: number
  readonly heartbeatDefaultMs?: number
  /** With `evict: 'stale'`: the silence that counts when the caller names none. */
  readonly staleDefaultMs?: number
  /** How to poll when the caller does not say, for a store where polling is expensive. */
  readonly pollingDefault?: Backoff
  /** False: `list` does not show the owners of claims, so deadlocks cannot be found. */
  readonly owners?: boolean
  /** False: renewals are not stored, so `renewalCount` counts only those that changed something else. */
  readonly renewals?: boolean
  /**
   * How long a claim lives. `lease`, the default: until the end that was answered, whatever becomes of connections and
   * processes. `connection`: no longer than the connection that made it, so no lease can be handed off, renewed over
   * another connection, or held for somebody behind this process. Compositions refuse such a driver: see `supports.ts`.
   */
  readonly lifetime?: ClaimLifetime
}

/** A claim as the store has it, for people and tools. Times are milliseconds of the store's own clock. */
export interface ListedClaim {
  /** The claim's capability. Must never leave the process that may read the store. */
  readonly id: string
  readonly state: 'held' | 'waiting'
  readonly mode: Mode
  readonly limit?: number | undefined
  readonly range?: Range | undefined
  readonly priority: number
  /** 0 while waiting. */
  readonly fence: number
  readonly ttlMs: number
  readonly graceMs: number
  readonly maxHoldMs?: number | undefined
  readonly leaving?: string | undefined
  /** The claim may outlive its process and have been handed off: its runner says which process claimed it. */
  readonly detached?: boolean | undefined
  /** While waiting: whether the claim is a conversion. */
  readonly converting?: boolean | undefined
  readonly enteredAt: number
  /** 0 while waiting. */
  readonly acquiredAt: number
  readonly lastHeartbeat: number
  readonly renewalCount: number
  readonly expiresAt: number
  readonly runner: Runner
}

/** A key in use, with its claims. */
export interface ListedKey {
  readonly key: string
  /** Holders first, then waiters in the order in which they will be promoted; as many as the query allows. */
  readonly claims: readonly ListedClaim[]
  /**
   * How many claims hold, and how many wait, if not all of them are listed. A store for which counting is expensive counts a thousand
   * more than it lists and no further: see `countedMax` in `drivers/kit/paging.ts`.
   */
  readonly held?: number | undefined
  readonly waiting?: number | undefined
}

/** A lock that an owner holds while it waits for another. */
export interface OwnerHold {
  readonly key: string
  readonly mode: Mode
  readonly fence: number
  /** The owner, as `runner.owner` names it. */
  readonly owner: string
}

/** An acquisition that waits on behalf of an owner, as its client publishes it in a store that keeps no queue. */
export interface OwnerWait {
  /** Unique in its client, and the same for as long as the acquisition waits. */
  readonly id: string
  readonly key: string
  readonly mode: Mode
  readonly runner: Runner
  /** What the owner, and those it runs in, hold meanwhile. */
  readonly holds: readonly OwnerHold[]
}

/** A published wait. Between `since` and `until` the acquisition waited, and its owner held these locks, without a break. */
export interface SharedWait {
  readonly wait: OwnerWait
  /** When the wait was first published. */
  readonly enteredAt: number
  /** When it was first published with these holds. */
  readonly since: number
  /** When it was published last but one: its client has since confirmed it. Less than `since` if it has not yet. */
  readonly until: number
}

/** The published waits of all clients, by the store's clock. */
export interface SharedWaits {
  readonly now: number
  readonly waits: readonly SharedWait[]
}

/** Which keys to list, and which page of them. */
export interface ListQuery {
  /** One key, by name. */
  readonly key?: string
  /** Keys that begin with this. */
  readonly prefix?: string
  /** Where the last page ended. */
  readonly after?: string
  /** Keys a page, 1 to 1000. */
  readonly limit?: number | undefined
  /** Claims of a key, 1 to 1000. Default: 1000. A page with thousands of claims ends before it has `limit` keys. */
  readonly claims?: number | undefined
  /** An id the caller knows: a store that hides ids shows this one. */
  readonly known?: string | undefined
}

/** One page of a listing. */
export interface KeyPage {
  /** The store's clock at the time of reading: compare the claims' times with this, never with a clock of your own. */
  readonly now: number
  readonly keys: readonly ListedKey[]
  /** Pass as `after` for the next page; absent on the last one. */
  readonly next?: string
}

/**
 * A pushed status of a claim that this driver's own client made, or `poll`: ask for the status. Always a hint: a lost
 * notification only costs time.
 */
export type Notification = ClaimStatus | 'poll'

/** Receives the notifications of a driver. Must not throw. */
export type OnNotification = (key: string, id: string, notification: Notification) => void

/**
 * Notifications may have been lost, of any claim of the driver: a connection was interrupted, an inbox was emptied. The client
 * polls every claim of its own that waits. Must not throw. A gap reported without need costs one request for each of those.
 */
export type OnGap = () => void

/** One store, seen by one client. */
export interface LockDriver {
  /** For messages and metrics, e.g. `sqlite`. */
  readonly name: string
  readonly supports: Supports
  /** The store itself, where it is known: two drivers with the same value use one store. */
  readonly store?: unknown
  /** Connects and creates what the store lacks. Repeatable; safe when many processes do it at once. */
  open(): Promise<void>
  /**
   * Carries out requests, in order within a key, and answers each in its place. One round trip where the store can do
   * that. Rejects only if nothing was sent; an outcome that is not known is answered `unknown`. Settles in bounded time.
   * A request that is out of limits is answered `unknown` with INVALID or UNSUPPORTED, and the others are carried out:
   * `withinLimits` of `limits.ts` does that in one line.
   */
  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]>
  /** What the store holds, a page at a time, in the store's order. Ended claims the store has not noticed may show. */
  list(query: ListQuery): Promise<KeyPage>
  /**
   * Calls `onNotification` when the status of a claim sent by this driver changes without its asking, and `onGap` when such
   * notifications may have been lost; neither while the driver is being called. Dispose to stop. Several may listen.
   */
  listen?(onNotification: OnNotification, onGap?: OnGap): Disposable
  /**
   * For how many milliseconds the store has kept every claim that it answered: since its schema, prefix or collection was
   * created, and since the server started wherever a start may lose claims or bring back an older copy. The time of
   * creation is stored with the data, so that a store that comes back empty is young again. A driver that keeps a
   * connection may ask once for each connection; the answer must not be older than the last status. Absent: the store
   * cannot say. See `leasehold/quorum`.
   */
  dataAgeMs?(): Promise<number>
  /**
   * For a store that keeps no queue: publishes the waits of a client's owners in place of those that the client published before, and
   * answers the waits that all clients have published lately. Without it such a store finds no deadlocks.
   */
  shareWaits?(client: string, waits: readonly OwnerWait[]): Promise<SharedWaits>
  /** What an operator should know of this store, as `open` found it: sentences that say what to do. */
  readonly warnings?: readonly string[]
  /** Closes connections, timers and files. Claims stay as they are. Repeatable. */
  close(): Promise<void>
}

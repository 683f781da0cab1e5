import type { AbsentStatus, Claim, Succession } from '../../../core/contract/driver.ts'
import type { CommentRecord } from '../protocol/claim-comment.ts'
import type { KnownClaim } from '../protocol/verdict.ts'

/** What this process knows of a claim that it renews. */
export interface LocalClaim {
  readonly id: string
  readonly key: string
  readonly issue: number
  comment: number
  /** Its place in the queue and its fence; `none` once it has stepped back. */
  place: number | 'none'
  author: string
  readonly evict: Claim['evict']
  readonly staleMs: number | undefined
  record: CommentRecord
  /** GitHub's time of the last edit. */
  updatedAt: number
  /** By our clock: when that edit was sent, and when the comment that is its place was first known to exist. */
  editedAt: number
  thereAt: number
  /** Since when readings have shown no claim before it; undefined while there is one. */
  firstSince: number | undefined
  held: boolean
  /** The conversion of it is being granted, or has been: nothing that is answered from here on may extend the trust in it. */
  isConverted: boolean
  /** By our clock: until when the owner of a conversion may trust the lease that it replaced. It lasts at least as long. */
  replacedUntil: number
  after: Succession | undefined
  /** The last status while waiting, and when it was read. */
  waiting: { readonly ahead: number; readonly againMs: number; readonly at: number } | undefined
}

/** What its owner knows of a claim, for the verdict on it. */
export function knownOf({ comment, place, updatedAt, held, evict }: LocalClaim): KnownClaim {
  return { comment, place, updatedAt, held, forces: evict === 'all' }
}

/** The fence of a claim that holds or has held. */
export function fenceOfLocal({ place, comment }: LocalClaim): number {
  return place === 'none' ? comment : place
}

/** For how long to renew: a conversion for no less than its owner, who may not have heard of the grant, trusts the replaced lease. */
export function lastingMs({ replacedUntil }: LocalClaim, ttlMs: number, now: number): number {
  return Math.max(ttlMs, Math.ceil(replacedUntil - now))
}

/** How many ended claims are remembered: a late copy of a request must not restart one. */
const endedMax = 2000

/** The claims that this process renews, and how the latest ones ended. */
export class LocalClaims {
  readonly #localClaims = new Map<string, LocalClaim>()
  readonly #ended = new Map<string, AbsentStatus>()
  /** By claim id: when its comment was last sent, if it is unknown whether it was created. */
  readonly #doubts = new Map<string, number>()

  get size(): number {
    return this.#localClaims.size
  }

  find(id: string): LocalClaim | undefined {
    return this.#localClaims.get(id)
  }

  add(localClaim: LocalClaim): LocalClaim {
    this.#localClaims.set(localClaim.id, localClaim)
    this.#doubts.delete(localClaim.id)
    return localClaim
  }

  /** Notes that the comment of a claim was sent, without a reply. */
  doubt(id: string, at: number): void {
    this.#doubts.set(id, at)
  }

  doubtSince(id: string): number {
    return this.#doubts.get(id) ?? -Infinity
  }

  /** How a claim ended, if it did and is remembered. */
  endOf(id: string): AbsentStatus | undefined {
    return this.#ended.get(id)
  }

  /** Ends a claim and remembers its status: a claim ends only once. */
  end(id: string, status: AbsentStatus): AbsentStatus {
    this.#localClaims.delete(id)
    this.#doubts.delete(id)
    this.#ended.set(id, status.reason === 'released' ? { state: 'absent', reason: 'unknown' } : status)
    if (this.#ended.size > endedMax) {
      for (const oldest of this.#ended.keys()) {
        this.#ended.delete(oldest)
        break
      }
    }
    return status
  }
}

import type { AbsentStatus, Claim, Succession } from '../../../core/contract/driver.ts'
import type { CommentRecord } from '../protocol/claim-comment.ts'

/** What this process knows of a claim it has in its care. */
export interface LocalClaim {
  readonly id: string
  readonly key: string
  readonly issue: number
  comment: number
  author: string
  readonly evict: Claim['evict']
  readonly staleMs: number | undefined
  record: CommentRecord
  /** GitHub's time of the last edit. */
  updatedAt: number
  /** By our clock: when that edit was sent, and when the comment was there at the latest. */
  editedAt: number
  readonly thereAt: number
  /** Since when readings have shown nobody before it; undefined while somebody is. */
  firstSince: number | undefined
  held: boolean
  after: Succession | undefined
  /** What was told last while it waited, and when it was read. */
  waiting: { readonly ahead: number; readonly againMs: number; readonly at: number } | undefined
}

/** Ended claims that are remembered: a late copy of a request must not begin one anew. */
const endedMax = 2000

/** The claims in this process's care, and how the last ones ended. */
export class LocalClaims {
  readonly #localClaims = new Map<string, LocalClaim>()
  readonly #ended = new Map<string, AbsentStatus>()
  /** When the comment was last sent of claims that it is not known to be there of. */
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

  /** The comment of a claim was sent, and nobody knows what became of it. */
  doubt(id: string, at: number): void {
    this.#doubts.set(id, at)
  }

  doubtSince(id: string): number {
    return this.#doubts.get(id) ?? -Infinity
  }

  /** How a claim ended, if that is known. */
  endOf(id: string): AbsentStatus | undefined {
    return this.#ended.get(id)
  }

  /** Remembers what was told: a claim has one end. */
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

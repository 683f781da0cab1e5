import type { Environment } from '../../../core/time/environment.ts'
import { claimIn, ttlMaxMs } from '../protocol/claim-comment.ts'
import { isText, type Comment } from '../protocol/comment-text.ts'
import type { Deadline } from '../api/deadline.ts'
import type { GithubApi } from '../api/github-api.ts'
import { readThread, type Takeovers, type TakenOver, type Thread } from '../protocol/thread.ts'
import type { IssueReading } from '../protocol/verdict.ts'
import type { TrustedAuthors } from '../api/trusted-authors.ts'

/** Older comments are not read: after twice the longest lease they cannot count any more. The third is a margin. */
const horizonMs = 3 * ttlMaxMs
const kinds = ['claim', 'takeover', 'turn'] as const
/** How many takeovers are remembered. */
const rememberedMax = 2000

/** Reads issues as queues, and remembers takeovers that a stale reading may lack. */
export class ThreadReader {
  readonly #api: GithubApi
  readonly #trustedAuthors: TrustedAuthors
  readonly #environment: Environment
  readonly #brokenTtlMs: number
  /** By our clock: when each takeover comment was first known to exist. */
  readonly #seenAt = new Map<number, number>()
  /** What takeovers of this process say, by the comments of the claims they name. */
  readonly #ends = new Map<number, TakenOver>()
  readonly #displaced = new Map<number, TakenOver>()

  constructor(api: GithubApi, trustedAuthors: TrustedAuthors, environment: Environment, brokenTtlMs: number) {
    this.#api = api
    this.#trustedAuthors = trustedAuthors
    this.#environment = environment
    this.#brokenTtlMs = brokenTtlMs
  }

  /** The start of the comments to read. It moves in steps of an hour, so that unchanged pages keep their ETags. */
  get sinceMs(): number {
    const earliest = this.#api.clock.earliest(this.#environment.now())
    return Math.floor((earliest - horizonMs) / ttlMaxMs) * ttlMaxMs
  }

  async read(issue: number, key: string, deadline: Deadline): Promise<IssueReading> {
    const reading = await this.#api.comments(issue, this.sinceMs, deadline)
    const thread = this.threadOf(await this.counted(reading.items, deadline), key)
    const now = this.#environment.now()
    for (const { end } of thread.claims) if (end?.how === 'taken over') this.#saw(end.comment, now)
    const { dateMs, begunAt, begunDateMs } = reading
    return { thread, dateMs, begunAt, begunDateMs, seenAt: this.#seenAt }
  }

  /** The claims, takeovers and turns among the comments whose authors may write. */
  counted(comments: readonly Comment[], deadline: Deadline): Promise<Comment[]> {
    const ours = comments.filter(({ body }) => kinds.some((kind) => isText(kind, body)))
    return this.#trustedAuthors.ofWriters(ours, deadline)
  }

  /** The keys that an issue has claims of: mostly one. */
  keysIn(comments: readonly Comment[]): ReadonlySet<string> {
    return new Set(comments.flatMap(({ body }) => claimIn(body)?.key ?? []))
  }

  threadOf(comments: readonly Comment[], key: string): Thread {
    return readThread(comments, key, this.#brokenTtlMs, { ends: this.#ends, displaced: this.#displaced })
  }

  /** Notes a takeover comment that we created: it exists, even if readings do not show it yet. */
  wrote({ ends, displaced }: Takeovers): void {
    const now = this.#environment.now()
    for (const [known, told] of [[this.#ends, ends] as const, [this.#displaced, displaced] as const]) {
      for (const [claim, takeover] of told) {
        this.#saw(takeover.comment, now)
        known.set(claim, takeover)
        dropOldest(known)
      }
    }
  }

  #saw(takeover: number, at: number): void {
    if (!this.#seenAt.has(takeover)) this.#seenAt.set(takeover, at)
    dropOldest(this.#seenAt)
  }
}

function dropOldest(map: Map<number, unknown>): void {
  if (map.size <= rememberedMax) return
  for (const oldest of map.keys()) return void map.delete(oldest)
}

import type { Environment } from '../../../core/time/environment.ts'
import { claimIn, ttlMaxMs } from '../protocol/claim-comment.ts'
import { isText, type Comment } from '../protocol/comment-text.ts'
import type { Deadline } from '../api/deadline.ts'
import type { GithubApi } from '../api/github-api.ts'
import { readThread, type ClaimEnd, type Thread } from '../protocol/thread.ts'
import type { IssueReading } from '../protocol/verdict.ts'
import type { TrustedAuthors } from '../api/trusted-authors.ts'

/** Older comments are not read: twice the longest lease, after which nothing they say can count, and time to spare. */
const horizonMs = 3 * ttlMaxMs
/** Takeovers that are remembered. */
const rememberedMax = 2000

/** Reads issues as queues, and remembers of takeovers what a stale reading may leave out. */
export class ThreadReader {
  readonly #api: GithubApi
  readonly #trustedAuthors: TrustedAuthors
  readonly #environment: Environment
  readonly #brokenTtlMs: number
  /** By our clock: when each takeover comment was there at the latest. */
  readonly #seenAt = new Map<number, number>()
  /** Ends that this process wrote itself, by the comments of the claims they end. */
  readonly #ends = new Map<number, ClaimEnd>()

  constructor(api: GithubApi, trustedAuthors: TrustedAuthors, environment: Environment, brokenTtlMs: number) {
    this.#api = api
    this.#trustedAuthors = trustedAuthors
    this.#environment = environment
    this.#brokenTtlMs = brokenTtlMs
  }

  /** From when on comments are read. It moves by the hour, so that pages that have not changed stay the same pages. */
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

  /** Those comments that are ours by their text, and whose authors may write. */
  counted(comments: readonly Comment[], deadline: Deadline): Promise<Comment[]> {
    const ours = comments.filter(({ body }) => isText('claim', body) || isText('takeover', body))
    return this.#trustedAuthors.ofWriters(ours, deadline)
  }

  /** The keys that the comments of an issue have claims of: mostly one. */
  keysIn(comments: readonly Comment[]): ReadonlySet<string> {
    return new Set(comments.flatMap(({ body }) => claimIn(body)?.key ?? []))
  }

  threadOf(comments: readonly Comment[], key: string): Thread {
    return readThread(comments, key, this.#brokenTtlMs, this.#ends)
  }

  /** A takeover comment of our own has been answered: it is there, whatever readings show. */
  wrote(end: Extract<ClaimEnd, { how: 'taken over' }>, claim: number): void {
    this.#saw(end.comment, this.#environment.now())
    this.#ends.set(claim, end)
    dropOldest(this.#ends)
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

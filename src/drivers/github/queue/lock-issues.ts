/** The issues of named locks. */
import { createHash } from 'node:crypto'
import { describeScope, splitStoreKey } from '../../../core/contract/scope.ts'
import { settledWithin } from '../../../core/time/bounded.ts'
import type { Environment } from '../../../core/time/environment.ts'
import { commentText, documentIn, nameText, objectOf, textOf, roundingMs } from '../protocol/comment-text.ts'
import type { Deadline } from '../api/deadline.ts'
import { answerIn } from '../api/faults.ts'
import type { GithubApi, Issue, DatedItems } from '../api/github-api.ts'
import type { TrustedAuthors } from '../api/trusted-authors.ts'

const version = 1
/** The least time that a reading waits for issues that are being opened. */
const openingWithinMs = 100

interface IssuesReading extends DatedItems<Issue> {
  /** The issue of each key: the lowest, if there are several. */
  readonly lowest: ReadonlyMap<string, Issue>
}

/** Finds the issue of a key, and opens one for a name that has none. */
export class LockIssues {
  readonly #api: GithubApi
  readonly #trustedAuthors: TrustedAuthors
  readonly #environment: Environment
  readonly #label: string
  readonly #settleMs: number
  readonly #found = new Map<string, number>()
  /** A reading that has not begun yet: callers share it. */
  #nextReading: Promise<IssuesReading> | undefined
  #lastReading: Promise<unknown> = Promise.resolve()
  /** Issues that are being opened: a reading begins after them, to serve all callers. */
  readonly #opening = new Set<Promise<unknown>>()

  constructor(
    api: GithubApi,
    trustedAuthors: TrustedAuthors,
    environment: Environment,
    label: string,
    settleMs: number,
  ) {
    this.#api = api
    this.#trustedAuthors = trustedAuthors
    this.#environment = environment
    this.#label = label
    this.#settleMs = settleMs
  }

  /** The number of the issue with this key's queue. With `open`, opens one for a name that has none. */
  async of(key: string, open: boolean, deadline: Deadline): Promise<number | undefined> {
    const number = issueNumberIn(key) ?? this.#found.get(key)
    if (number !== undefined) return number
    let openedAt: number | undefined
    for (;;) {
      const read = await this.#read(deadline)
      const lowest = read.lowest.get(key)
      if (lowest !== undefined) {
        // If this issue is older than a settle time, the reading also shows any lower issue made before it.
        const wasThere = openedAt !== undefined && read.begunAt >= openedAt + this.#settleMs
        const isOld = read.begunDateMs >= lowest.createdAt + roundingMs + this.#settleMs
        if (wasThere || isOld) {
          this.#found.set(key, lowest.number)
          return lowest.number
        }
        openedAt ??= this.#environment.now()
      } else {
        if (!open) return undefined
        const isLost = openedAt !== undefined && read.begunAt >= openedAt + this.#settleMs
        if (openedAt === undefined || isLost) openedAt = await this.#noted(this.#open(key, deadline))
      }
      await deadline.pause(Math.max(1, openedAt + this.#settleMs - this.#environment.now()))
    }
  }

  /** Forgets the issue of a key, since it no longer exists: the next call reads again. */
  forget(key: string): void {
    this.#found.delete(key)
  }

  /** Opens an issue. A lost reply does no harm: of two issues the lower one counts. Resolves to the time of the reply. */
  async #open(key: string, deadline: Deadline): Promise<number> {
    const name = describeScope({ key: splitStoreKey(key)?.scopeKey ?? key })
    const sentence = `🔐 This issue is the lock ${nameText(name)}: its comments are the queue. Please leave its text, its
label and its comments to the workers that share it.`
    const body = commentText('lock', sentence, { leasehold: { version, key } })
    try {
      await this.#api.openIssue(`Lock: ${titleOf(name, key)}`, body, [this.#label], deadline)
    } catch (error) {
      const status = answerIn(error)?.status
      if (status !== undefined && status < 500) throw error
    }
    return this.#environment.now()
  }

  async #noted<Result>(opening: Promise<Result>): Promise<Result> {
    this.#opening.add(opening)
    try {
      return await opening
    } finally {
      this.#opening.delete(opening)
    }
  }

  /** Lists the issues. Concurrent callers share one reading, which begins after all of them asked. */
  #read(deadline: Deadline): Promise<IssuesReading> {
    if (this.#nextReading !== undefined) return deadline.bound(this.#nextReading)
    const last = this.#lastReading
    const read = (async () => {
      await last
      if (this.#opening.size > 0) {
        const sendTimeoutMs = Math.max(openingWithinMs, this.#settleMs)
        await settledWithin(this.#environment, sendTimeoutMs, Promise.allSettled(this.#opening))
      }
      this.#nextReading = undefined
      const reading = await this.#api.issues(this.#label, deadline)
      const locks = await this.#trustedAuthors.ofWriters(reading.items, deadline)
      return { ...reading, lowest: lowestByKey(locks) }
    })()
    this.#nextReading = read
    this.#lastReading = read.catch(() => {})
    return deadline.bound(read)
  }
}

/** The number in a key such as `default/issue:123`. */
function issueNumberIn(key: string): number | undefined {
  const [, number] = /^issue:([1-9]\d*)$/.exec(splitStoreKey(key)?.scopeKey ?? '') ?? []
  return number === undefined ? undefined : Number(number)
}

function lowestByKey(issues: readonly Issue[]): ReadonlyMap<string, Issue> {
  const lowest = new Map<string, Issue>()
  for (const issue of issues) {
    const key = keyIn(issue.body)
    const other = key === undefined ? undefined : lowest.get(key)
    if (key !== undefined && (other === undefined || issue.number < other.number)) lowest.set(key, issue)
  }
  return lowest
}

function keyIn(body: string): string | undefined {
  const own = objectOf(documentIn('lock', body)?.['leasehold'])
  return own?.['version'] === version ? textOf(own['key']) : undefined
}

/** The title of an issue: the name, or the start of a long name with a hash. */
function titleOf(name: string, key: string): string {
  if (name.length <= 120) return name
  return `${name.slice(0, 100)}… ${createHash('sha256').update(key).digest('hex').slice(0, 12)}`
}

/**
 * Locks in the issues of a GitHub repository: workers that share one coordinate by its comments, and people can read along.
 *
 * A claim is a comment; the comment ids order the queue, and the id of a claim's place is the fence. GitHub has no compare-and-set, and its
 * reads may be stale for a moment, so a claim is granted once two reads, a settle time apart, show no claim before it. The
 * protocol and why it is safe: docs/decisions/060-issues-as-a-queue.md.
 */
import { Lifecycle } from '../kit/lifecycle.ts'
import { keyOf } from '../../core/contract/requests.ts'
import type { KeyPage, ListQuery, LockDriver, Request, ClaimStatus, Supports } from '../../core/contract/driver.ts'
import { durationMs, timerMs, type Duration } from '../../core/time/duration.ts'
import { systemEnvironment, type Environment } from '../../core/time/environment.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { withinLimits } from '../../core/contract/limits.ts'
import { pageOf } from '../kit/paging.ts'
import { redactedUrl } from '../../core/contract/redaction.ts'
import { ttlMaxMs } from './protocol/claim-comment.ts'
import { Deadlines, type Deadline } from './api/deadline.ts'
import { objectOf } from './protocol/comment-text.ts'
import { timeAt, type GithubContext } from './queue/context.ts'
import { githubError, isNotFound, unavailable } from './api/faults.ts'
import { GithubApi, type Repository } from './api/github-api.ts'
import { carryOutOn } from './queue/issue-queue.ts'
import { unknownClaim } from './queue/leaving.ts'
import { commentsByKey, listedClaims } from './protocol/listing.ts'
import { LockIssues } from './queue/lock-issues.ts'
import { MirrorKeeper } from './queue/mirror.ts'
import { makeOctokit, type OctokitLike, findToken } from './api/octokit.ts'
import { checkGithubOptions, type GithubOptions } from './options.ts'
import { RateBudget } from './api/rate-budget.ts'
import { LocalClaims } from './queue/local-claims.ts'
import { IssueMarkers } from './queue/issue-markers.ts'
import { issueStatusOf, type IssueStatus } from './status.ts'
import { ThreadReader } from './queue/thread-reader.ts'
import { eachInTurn } from './queue/in-turn.ts'
import { TrustedAuthors } from './api/trusted-authors.ts'

export { forTask, type TaskInfo, type TaskWorker } from './protocol/task-info.ts'
export type { GithubOptions } from './options.ts'
export type { IssueStatus } from './status.ts'
export type { Mirror } from './queue/mirror.ts'
export type { OctokitLike } from './api/octokit.ts'
export type { Published } from './protocol/published-runner.ts'

/** The locks of a repository's issues. */
export interface GithubDriver extends LockDriver {
  /** Who holds an issue. Reads the mirror first, if there is one. */
  status(issue: number): Promise<IssueStatus>
  /** Records the result of the work under this fence: releasing the claim writes it into the comment. */
  conclude(fence: number, result: string): void
}

const ttlDefaultMs = 300_000
const heartbeatDefaultMs = 30_000
const settleDefaultMs = 5000
const readWithinMs = 30_000
const closeWithinMs = 2000

/**
 * Locks in the issues of `owner/repo`.
 *
 * @example
 * ```ts
 * import { createLocks, issue } from 'leasehold'
 * import { github } from 'leasehold/github'
 *
 * await using locks = await createLocks({ driver: github('octo-org/shop', { workerId: 'deploy-bot' }) })
 * await locks.run(issue(42), () => console.log('The issue is ours.'))
 * ```
 */
export function github(repository: string, options: GithubOptions = {}): GithubDriver {
  return new IssuesDriver(repository, options)
}

/** @internal For `connect`: `owner/repo`, or `//owner/repo`, and `?api=…` for a GitHub Enterprise Server. */
export function githubUrl(rest: string): GithubDriver {
  const [repository = '', search = ''] = rest.replace(/^\/\//, '').split('?')
  const query = new URLSearchParams(search)
  const unknown = [...query.keys()].find((name) => name !== 'api' && name !== 'settle')
  if (unknown !== undefined) {
    throw new LeaseholdError('INVALID', `A github: URL has no ${JSON.stringify(unknown)}. It takes api and settle.`)
  }
  const [baseUrl, settle] = [query.get('api'), query.get('settle')]
  return github(repository.replace(/\/$/, ''), {
    ...(baseUrl !== null && { baseUrl }),
    ...(settle !== null && { settle: settle as Duration }),
  })
}

/** A repository whose rights have been checked. */
interface OpenRepository {
  readonly context: GithubContext
  readonly issues: LockIssues
}

class IssuesDriver implements GithubDriver {
  readonly name = 'github'
  readonly supports: Supports
  readonly #repository: Repository
  readonly #options: GithubOptions
  readonly #settleMs: number
  readonly #environment: Environment
  readonly #deadlines: Deadlines
  readonly #lifecycle = new Lifecycle('This GitHub store', () => this.#begin())
  #closing: Promise<void> | undefined

  constructor(repository: string, options: GithubOptions) {
    const [, owner, repo] = /^([\w.-]+)\/([\w.-]+)$/.exec(repository) ?? []
    if (owner === undefined || repo === undefined) {
      throw new LeaseholdError(
        'INVALID',
        `${JSON.stringify(redactedUrl(repository))} is not a repository. Use owner/repo.`,
      )
    }
    checkGithubOptions(options)
    this.#repository = { owner, repo }
    this.#options = options
    this.#environment = options.environment ?? systemEnvironment()
    this.#deadlines = new Deadlines(this.#environment)
    this.#settleMs = durationMs(options.settle ?? settleDefaultMs, 'settle')
    const { min, max } = options.poll ?? { min: '1s', max: '16s' }
    const [pollMinMs, pollMaxMs] = [timerMs(min, 'poll.min'), timerMs(max, 'poll.max')]
    if (pollMinMs > pollMaxMs) throw invalid(`poll.min is ${pollMinMs} ms, more than poll.max, ${pollMaxMs} ms.`)
    if (4 * this.#settleMs > ttlMaxMs) throw invalid(`settle is ${this.#settleMs} ms. Use ${ttlMaxMs / 4} ms at most.`)
    this.supports = {
      shared: true,
      limit: false,
      range: false,
      queue: true,
      push: false,
      priority: true,
      convert: true,
      evict: ['stale', 'all'],
      grace: false,
      maxHold: false,
      fence: true,
      ttlMinMs: Math.max(100, 4 * this.#settleMs),
      ttlMaxMs,
      ttlDefaultMs,
      heartbeatDefaultMs,
      staleDefaultMs: ttlDefaultMs,
      pollingDefault: {
        attempts: Infinity,
        minMs: pollMinMs,
        maxMs: pollMaxMs,
        factor: 2,
        jitter: 0.1,
      },
      owners: options.publish?.includes('owner') ?? false,
    }
  }

  async open(): Promise<void> {
    await this.#lifecycle.opened()
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  async #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    if (requests.length === 0 && !this.#lifecycle.isShut) return []
    const { context, issues } = await this.#lifecycle.opened()
    return eachInTurn(requests, keyOf, (request) => this.#carryOut(context, issues, request))
  }

  async list(query: ListQuery): Promise<KeyPage> {
    const { context, issues } = await this.#lifecycle.opened()
    return this.#deadlines.within(readWithinMs, (deadline) => this.#list(context, issues, query, deadline))
  }

  async #list(context: GithubContext, issues: LockIssues, query: ListQuery, deadline: Deadline): Promise<KeyPage> {
    const { reader, api } = context
    const { key } = query
    try {
      if (key !== undefined) {
        const issue = await issues.of(key, false, deadline)
        if (issue === undefined) return { now: timeAt(context), keys: [] }
        const { thread, dateMs } = await reader.read(issue, key, deadline)
        return pageOf([key], { key, claims: query.claims, known: query.known }, dateMs, () => ({
          claims: listedClaims(thread),
        }))
      }
      const { items, dateMs } = await api.everyComment(reader.sinceMs, deadline)
      const byKey = commentsByKey(await reader.counted(items, deadline))
      return pageOf([...byKey.keys()].toSorted(), query, dateMs, (each) => ({
        claims: listedClaims(reader.threadOf(byKey.get(each) ?? [], each)),
      }))
    } catch (error) {
      if (key !== undefined && isNotFound(error)) return { now: timeAt(context), keys: [] }
      throw githubError(error)
    }
  }

  async status(issue: number): Promise<IssueStatus> {
    const { context } = await this.#lifecycle.opened()
    try {
      return await this.#deadlines.within(readWithinMs, (deadline) => issueStatusOf(context, issue, deadline))
    } catch (error) {
      throw githubError(error)
    }
  }

  conclude(fence: number, result: string): void {
    const text = result.slice(0, 1000)
    // A driver that is not open has granted no fence.
    this.#lifecycle.current?.context.results.set(fence, text)
  }

  /** A second call settles with the first, and gives up nothing that the first waits for. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const opened = this.#lifecycle.shut()
    // Nothing but an attempt to open can be under way then, and nobody waits for its answer any more.
    if (opened === undefined) this.#deadlines.giveUpAll(this.#lifecycle.closedError())
    await this.#lifecycle.settled()
    await opened?.context.markers.close(closeWithinMs)
    this.#deadlines.giveUpAll(this.#lifecycle.closedError())
  }

  async #begin(): Promise<OpenRepository> {
    const { publish = [], trusted = [], mirror, assign = true, heldLabel = 'leasehold: held' } = this.#options
    const { workerId, nodeId } = this.#options
    const environment = this.#environment
    const settleMs = this.#settleMs
    const rateBudget = new RateBudget(heartbeatDefaultMs)
    const api = new GithubApi(await this.#octokit(), this.#repository, environment, rateBudget)
    this.#lifecycle.refuseIfShut()
    await this.#checkRights(api)
    const trustedAuthors = new TrustedAuthors(api, environment, trusted)
    const context: GithubContext = {
      environment,
      api,
      rateBudget,
      trustedAuthors,
      // The ttl of a claim whose comment was broken is unknown: assume the longest.
      reader: new ThreadReader(api, trustedAuthors, environment, ttlMaxMs),
      localClaims: new LocalClaims(),
      markers: new IssueMarkers(api, environment, this.#deadlines, rateBudget, {
        assign,
        label: heldLabel === false ? undefined : heldLabel,
      }),
      mirror: new MirrorKeeper(mirror),
      settleMs,
      publish: new Set(publish),
      workerId,
      nodeId,
      results: new Map(),
    }
    const label = this.#options.lockLabel ?? 'leasehold'
    return { context, issues: new LockIssues(api, trustedAuthors, environment, label, settleMs) }
  }

  async #octokit(): Promise<OctokitLike> {
    const { octokit, token, baseUrl = process.env['GITHUB_API_URL'] || undefined, fetch } = this.#options
    return octokit ?? makeOctokit({ token: await findToken(token), baseUrl, fetch })
  }

  async #checkRights(api: GithubApi): Promise<void> {
    const name = `${this.#repository.owner}/${this.#repository.repo}`
    const asked = this.#deadlines.within(readWithinMs, (deadline) => api.repository(deadline))
    const found = await asked.catch((error: unknown) => {
      throw githubError(error)
    })
    const { permissions, has_issues: hasIssues, archived } = found
    if (hasIssues === false) throw unavailable(`${name} has no issues. Turn them on in its settings.`, 'configuration')
    if (archived === true) throw unavailable(`${name} is archived: nothing can be written.`, 'read-only')
    // A user who sees the repository may at least pull. Without `pull`, the token is an app's, and `permissions` is not about it.
    const { push, pull } = objectOf(permissions) ?? {}
    if (push === false && pull !== false) {
      throw unavailable(`The token may not write to ${name}, so its claims would not count.`, 'auth')
    }
  }

  async #carryOut(context: GithubContext, issues: LockIssues, request: Request): Promise<ClaimStatus> {
    const key = keyOf(request)
    try {
      return await this.#deadlines.within(boundMs(request), async (deadline) => {
        const issue = await issues.of(key, request.op === 'claim', deadline)
        return issue === undefined ? unknownClaim : carryOutOn(context, issue, request, deadline)
      })
    } catch (cause) {
      if (isNotFound(cause)) issues.forget(key)
      return { state: 'unknown', error: githubError(cause) }
    }
  }
}

/** How long a request may take: a later answer would be useless. */
function boundMs(request: Request): number {
  const leastMs = 1000
  const mostMs = 120_000
  if (request.op === 'claim') return Math.min(mostMs, Math.max(leastMs, request.claim.ttlMs / 2))
  return request.op === 'renew' ? Math.min(mostMs, Math.max(leastMs, request.ttlMs / 4)) : readWithinMs
}

function invalid(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', message)
}

/** The requests to GitHub. Each has a deadline, updates clock and rate budget, and uses ETags where possible. */
import type { Environment } from '../../../core/time/environment.ts'
import { type Comment, objectOf, timeOf, timeText } from '../protocol/comment-text.ts'
import type { Deadline } from './deadline.ts'
import { answerIn, githubError, isNotFound, limited, limitedForMs, unavailable } from './faults.ts'
import type { OctokitLike, RequestTerms } from './octokit.ts'
import type { RateBudget } from './rate-budget.ts'
import { CallSemaphore } from '../../kit/call-semaphore.ts'

/** The items of a reading, and when it was made. */
export interface DatedItems<Item> {
  readonly items: readonly Item[]
  /** GitHub's clock when it answered. */
  readonly dateMs: number
  /** When the reading began, by the client's clock and at the earliest by GitHub's. */
  readonly begunAt: number
  readonly begunDateMs: number
}

/** The part of an issue that locks use. */
export interface Issue {
  readonly number: number
  readonly author: string
  readonly body: string
  readonly createdAt: number
}

/** The name of a repository. */
export interface Repository {
  readonly owner: string
  readonly repo: string
}

interface Answer {
  readonly data: unknown
  readonly headers: Readonly<Record<string, unknown>>
  readonly dateMs: number
}

interface KeptAnswer {
  readonly etag: string
  readonly data: unknown
}

/** How many answers are cached with their ETags. */
const answersKeptMax = 500
const perPage = 100
/** GitHub allows a hundred concurrent requests for all processes of an account. */
const requestsAtOnce = 10
/** An issue with more recent comments than this has been abused. */
const pagesMax = 50

const comments = 'GET /repos/{owner}/{repo}/issues/{issue_number}/comments'
const oneComment = '/repos/{owner}/{repo}/issues/comments/{comment_id}'

/** The API of one repository. */
export class GithubApi {
  readonly clock = new ServerClock()
  readonly #octokit: OctokitLike
  readonly #repository: Repository
  readonly #environment: Environment
  readonly #rateBudget: RateBudget
  readonly #kept = new Map<string, KeptAnswer>()
  readonly #slots = new CallSemaphore(requestsAtOnce)
  #silentUntil = -Infinity

  constructor(octokit: OctokitLike, repository: Repository, environment: Environment, rateBudget: RateBudget) {
    this.#octokit = octokit
    this.#repository = repository
    this.#environment = environment
    this.#rateBudget = rateBudget
  }

  /** What the token may do in the repository. */
  async repository(deadline: Deadline): Promise<Readonly<Record<string, unknown>>> {
    return objectOf((await this.#ask('GET /repos/{owner}/{repo}', {}, deadline)).data) ?? {}
  }

  /** Whether a user may write to the repository. */
  async mayWrite(username: string, deadline: Deadline): Promise<boolean> {
    try {
      const route = 'GET /repos/{owner}/{repo}/collaborators/{username}/permission'
      const { data } = await this.#askIfChanged(route, { username }, deadline)
      return ['admin', 'write'].includes(String(objectOf(data)?.['permission']))
    } catch (error) {
      if (answerIn(error)?.status !== 404) throw error
      // A 404 also means that we cannot see the repository at all. Then this throws, and the author is not judged.
      await this.repository(deadline)
      return false
    }
  }

  /** The comments of an issue that were created or edited since then. */
  comments(issue: number, sinceMs: number, deadline: Deadline): Promise<DatedItems<Comment>> {
    return this.#pagesOf(comments, { issue_number: issue, since: timeText(sinceMs) }, commentOf, deadline)
  }

  /** The comments of all issues that were created or edited since then. */
  everyComment(sinceMs: number, deadline: Deadline): Promise<DatedItems<Comment>> {
    const query = { since: timeText(sinceMs), sort: 'created', direction: 'asc' }
    return this.#pagesOf('GET /repos/{owner}/{repo}/issues/comments', query, commentOf, deadline, false)
  }

  /** Creates a comment, without retries: the caller first checks whether the comment exists. */
  async createComment(issue: number, body: string, deadline: Deadline): Promise<Comment> {
    const route = 'POST /repos/{owner}/{repo}/issues/{issue_number}/comments'
    const { data } = await this.#ask(route, { issue_number: issue, body, request: { retries: 0 } }, deadline)
    return commentOf(data)
  }

  /** Edits a comment, and resolves to it; undefined if it no longer exists. */
  async editComment(
    id: number,
    body: string,
    deadline: Deadline,
  ): Promise<{ comment: Comment; dateMs: number } | undefined> {
    try {
      const { data, dateMs } = await this.#ask(`PATCH ${oneComment}`, { comment_id: id, body }, deadline)
      return { comment: commentOf(data), dateMs }
    } catch (error) {
      if (isNotFound(error)) return undefined
      throw error
    }
  }

  async deleteComment(id: number, deadline: Deadline): Promise<void> {
    await this.#ask(`DELETE ${oneComment}`, { comment_id: id }, deadline)
  }

  /** Every issue with the label, open or closed, in the order of their numbers. */
  issues(label: string, deadline: Deadline): Promise<DatedItems<Issue>> {
    const query = { labels: label, state: 'all', sort: 'created', direction: 'asc' }
    return this.#pagesOf('GET /repos/{owner}/{repo}/issues', query, issueOf, deadline)
  }

  async openIssue(title: string, body: string, labels: readonly string[], deadline: Deadline): Promise<Issue> {
    const route = 'POST /repos/{owner}/{repo}/issues'
    return issueOf((await this.#ask(route, { title, body, labels, request: { retries: 0 } }, deadline)).data)
  }

  async assign(issue: number, login: string, deadline: Deadline): Promise<void> {
    const route = 'POST /repos/{owner}/{repo}/issues/{issue_number}/assignees'
    await this.#ask(route, { issue_number: issue, assignees: [login] }, deadline)
  }

  async unassign(issue: number, login: string, deadline: Deadline): Promise<void> {
    const route = 'DELETE /repos/{owner}/{repo}/issues/{issue_number}/assignees'
    await this.#ask(route, { issue_number: issue, assignees: [login] }, deadline)
  }

  async addLabel(issue: number, label: string, deadline: Deadline): Promise<void> {
    const route = 'POST /repos/{owner}/{repo}/issues/{issue_number}/labels'
    await this.#ask(route, { issue_number: issue, labels: [label] }, deadline)
  }

  async removeLabel(issue: number, label: string, deadline: Deadline): Promise<void> {
    const route = 'DELETE /repos/{owner}/{repo}/issues/{issue_number}/labels/{name}'
    await this.#ask(route, { issue_number: issue, name: label }, deadline)
  }

  async #pagesOf<Item>(
    route: string,
    query: Readonly<Record<string, unknown>>,
    read: (value: unknown) => Item,
    deadline: Deadline,
    isToDecide = true,
  ): Promise<DatedItems<Item>> {
    const begunAt = this.#environment.now()
    const begunDateMs = this.clock.earliest(begunAt)
    const pages: (readonly unknown[])[] = []
    let dateMs = Infinity
    const ask = async (page: number): Promise<readonly unknown[]> => {
      const answer = await this.#askIfChanged(route, { ...query, per_page: perPage, page }, deadline)
      // The pages are read one after the other: the earliest date is true for all of them.
      dateMs = Math.min(dateMs, answer.dateMs)
      if (!Array.isArray(answer.data)) throw unavailable('GitHub did not answer with a list.', 'network')
      return answer.data
    }
    // Read on after a full page: a cached (304) page does not tell that a further page exists by now.
    while ((pages.at(-1)?.length ?? perPage) >= perPage) {
      if (pages.length === pagesMax) throw unavailable(`GitHub has over ${pagesMax * perPage} entries to read.`, 'full')
      pages.push(await ask(pages.length + 1))
    }
    // A deletion in between moves comments to pages already read: read these once more. Mostly they are unchanged (304).
    if (isToDecide) for (let page = pages.length - 1; page >= 1; page -= 1) pages.push(await ask(page))
    return { items: pages.flat().map(read), dateMs, begunAt, begunDateMs }
  }

  /** Sends a conditional request: GitHub does not count a reply of 304 (unchanged). */
  async #askIfChanged(
    route: string,
    query: Readonly<Record<string, unknown>>,
    deadline: Deadline,
  ): Promise<{ readonly data: unknown; readonly dateMs: number }> {
    const name = `${route} ${JSON.stringify(query)}`
    const kept = this.#kept.get(name)
    const headers = kept === undefined ? {} : { 'if-none-match': kept.etag }
    const answer = await this.#ask(route, { ...query, headers }, deadline)
    if (kept !== undefined && answer.data === unchanged) return { data: kept.data, dateMs: answer.dateMs }
    const { etag } = answer.headers
    if (typeof etag === 'string') this.#keep(name, { etag, data: answer.data })
    return answer
  }

  #keep(name: string, answer: KeptAnswer): void {
    this.#kept.delete(name)
    this.#kept.set(name, answer)
    if (this.#kept.size > answersKeptMax) for (const oldest of this.#kept.keys()) return void this.#kept.delete(oldest)
  }

  #ask(route: string, parameters: Readonly<Record<string, unknown>>, deadline: Deadline): Promise<Answer> {
    return deadline.bound(this.#slots.run(() => this.#send(route, parameters, deadline)))
  }

  async #send(route: string, parameters: Readonly<Record<string, unknown>>, deadline: Deadline): Promise<Answer> {
    const silentMs = this.#silentUntil - this.#environment.now()
    if (silentMs > 0) throw limited(silentMs)
    const leasehold: RequestTerms = { leftMs: () => deadline.leftMs }
    const request = { ...objectOf(parameters['request']), signal: deadline.signal, leasehold }
    try {
      deadline.signal.throwIfAborted()
      const work = this.#octokit.request(route, { ...this.#repository, ...parameters, request })
      const { headers, data } = await deadline.bound(work)
      return { data, headers, dateMs: this.#noteHeaders(headers) }
    } catch (error) {
      const answer = answerIn(error)
      if (answer === undefined) throw githubError(error)
      const dateMs = this.#noteHeaders(answer.headers)
      if (answer.status === 304) return { data: unchanged, headers: answer.headers, dateMs }
      const limitedMs = limitedForMs(error, dateMs)
      if (limitedMs === undefined) throw error
      const now = this.#environment.now()
      this.#silentUntil = Math.max(this.#silentUntil, now + limitedMs)
      this.#rateBudget.limited(now)
      throw limited(limitedMs, error)
    }
  }

  /** Notes the time and the rate budget of a reply. Returns the time. */
  #noteHeaders(headers: Readonly<Record<string, unknown>>): number {
    const now = this.#environment.now()
    const dateMs = timeOf(headers['date'])
    if (dateMs === undefined) throw unavailable('GitHub answered without a date.', 'network')
    this.clock.note(dateMs, now)
    const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((name) =>
      Number(headers[`x-ratelimit-${name}`]),
    )
    if (limit && remaining !== undefined && reset && Number.isFinite(remaining)) {
      this.#rateBudget.note(limit, remaining, reset * 1000, dateMs, now)
    }
    return dateMs
  }
}

const unchanged = Symbol('unchanged')

function commentOf(value: unknown): Comment {
  const given = objectOf(value) ?? {}
  const [, issue] = /\/issues\/(\d+)$/.exec(String(given['issue_url'])) ?? []
  const comment = {
    id: Number(given['id']),
    issue: Number(issue),
    author: authorOf(given),
    body: typeof given['body'] === 'string' ? given['body'] : '',
    createdAt: timeOf(given['created_at']) ?? NaN,
    updatedAt: timeOf(given['updated_at']) ?? NaN,
  }
  if (Number.isSafeInteger(comment.id) && !Number.isNaN(comment.createdAt + comment.updatedAt)) return comment
  throw unavailable('GitHub did not answer with a comment.', 'network')
}

function issueOf(value: unknown): Issue {
  const given = objectOf(value) ?? {}
  const issue = {
    number: Number(given['number']),
    author: authorOf(given),
    body: typeof given['body'] === 'string' ? given['body'] : '',
    createdAt: timeOf(given['created_at']) ?? NaN,
  }
  if (Number.isSafeInteger(issue.number) && !Number.isNaN(issue.createdAt)) return issue
  throw unavailable('GitHub did not answer with an issue.', 'network')
}

/** The login of the author; empty for a deleted account. */
function authorOf(given: Readonly<Record<string, unknown>>): string {
  const login = objectOf(given['user'])?.['login']
  return typeof login === 'string' ? login : ''
}

/** GitHub's clock by the `Date` of its last reply: a lower bound of its time now. */
export class ServerClock {
  #leadMs: number | undefined

  /** Notes that a reply of that date arrived at `receivedAt` by the client's clock. */
  note(dateMs: number, receivedAt: number): void {
    this.#leadMs = dateMs - receivedAt
  }

  /** The earliest possible time at GitHub now; -Infinity before the first reply. */
  earliest(now: number): number {
    return this.#leadMs === undefined ? -Infinity : now + this.#leadMs
  }
}

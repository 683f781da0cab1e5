/** The requests to GitHub: each with its deadline, its clock, what it says of the budget, and ETags where it can. */
import type { Environment } from '../../../core/time/environment.ts'
import { type Comment, objectOf, timeOf, timeText } from '../protocol/comment-text.ts'
import type { Deadline } from './deadline.ts'
import { answerIn, githubError, isNotFound, limited, limitedForMs, unavailable } from './faults.ts'
import type { OctokitLike, RequestTerms } from './octokit.ts'
import type { RateBudget } from './rate-budget.ts'
import { CallSemaphore } from '../../kit/call-semaphore.ts'

export interface DatedItems<Item> {
  readonly items: readonly Item[]
  /** GitHub's clock with the answer. */
  readonly dateMs: number
  /** When the reading began, by the client's clock and at the earliest by GitHub's. */
  readonly begunAt: number
  readonly begunDateMs: number
}

/** An issue, as far as locks care. */
export interface Issue {
  readonly number: number
  readonly author: string
  readonly body: string
  readonly createdAt: number
}

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

/** Answers that are kept, in case they have not changed. */
const answersKeptMax = 500
const perPage = 100
/** GitHub wants no more than a hundred at once from all processes of an account. */
const requestsAtOnce = 10
/** An issue with more comments within the hours that are read has been abused. */
const pagesMax = 50

const comments = 'GET /repos/{owner}/{repo}/issues/{issue_number}/comments'
const oneComment = '/repos/{owner}/{repo}/issues/comments/{comment_id}'

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
      // Unless nothing is shown to us at all: then nobody is a stranger for that.
      await this.repository(deadline)
      return false
    }
  }

  /** The comments of an issue that were made or edited since. */
  comments(issue: number, sinceMs: number, deadline: Deadline): Promise<DatedItems<Comment>> {
    return this.#pagesOf(comments, { issue_number: issue, since: timeText(sinceMs) }, commentOf, deadline)
  }

  /** The comments of all issues that were made or edited since. */
  everyComment(sinceMs: number, deadline: Deadline): Promise<DatedItems<Comment>> {
    const query = { since: timeText(sinceMs), sort: 'created', direction: 'asc' }
    return this.#pagesOf('GET /repos/{owner}/{repo}/issues/comments', query, commentOf, deadline, false)
  }

  /** Not sent again by octokit: whoever asks looks first whether the comment is there. */
  async createComment(issue: number, body: string, deadline: Deadline): Promise<Comment> {
    const route = 'POST /repos/{owner}/{repo}/issues/{issue_number}/comments'
    const { data } = await this.#ask(route, { issue_number: issue, body, request: { retries: 0 } }, deadline)
    return commentOf(data)
  }

  /** The comment as it is now; undefined if it is not there any more. */
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
      // The first page is the oldest: what it shows was so at its date.
      dateMs = Math.min(dateMs, answer.dateMs)
      if (!Array.isArray(answer.data)) throw unavailable('GitHub answered with something that is no list.', 'network')
      return answer.data
    }
    // A full page may have one after it, whatever it said when it was the last: it has not changed since, so nobody says.
    while ((pages.at(-1)?.length ?? perPage) >= perPage) {
      if (pages.length === pagesMax) throw unavailable(`GitHub has over ${pagesMax * perPage} entries to read.`, 'full')
      pages.push(await ask(pages.length + 1))
    }
    // What was deleted in between has moved others to pages that were read before: these once more, mostly unchanged.
    if (isToDecide) for (let page = pages.length - 1; page >= 1; page -= 1) pages.push(await ask(page))
    return { items: pages.flat().map(read), dateMs, begunAt, begunDateMs }
  }

  /** Asks for what may be known already: an answer that says "unchanged" is not counted by GitHub. */
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

  /** Every answer says what time it is and how much of the budget is left. Gives the time. */
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
  throw unavailable('GitHub answered with something that is no comment.', 'network')
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
  throw unavailable('GitHub answered with something that is no issue.', 'network')
}

/** Empty for a user who is no more. */
function authorOf(given: Readonly<Record<string, unknown>>): string {
  const login = objectOf(given['user'])?.['login']
  return typeof login === 'string' ? login : ''
}

/** GitHub's clock, as the `Date` of its last answer tells it: the time it says has certainly been reached. */
export class ServerClock {
  #leadMs: number | undefined

  /** An answer of that date arrived at `receivedAt`, by the client's clock. */
  note(dateMs: number, receivedAt: number): void {
    this.#leadMs = dateMs - receivedAt
  }

  /** The earliest that it can be there now; before the first answer nothing is known. */
  earliest(now: number): number {
    return this.#leadMs === undefined ? -Infinity : now + this.#leadMs
  }
}

/**
 * A GitHub of our own: issues, comments, assignees, labels and who may write, with ETags, limits, reads that lag behind
 * writes, and faults on demand. It answers in the words of GitHub's API, to which `openapi.ts` holds every exchange.
 */
import { createHash } from 'node:crypto'
import { seededRandom } from '../../../src/testing/random.ts'
import {
  commentDocument,
  issueDocument,
  labelDocument,
  permissionDocument,
  repositoryDocument,
  type Permission,
  type StoredComment,
  type StoredIssue,
} from './documents.ts'
import { Lagging } from './lagging.ts'
import { githubsAllowance, Meter, type Allowance } from './limits.ts'
import type { OpenApi } from './openapi.ts'

export interface HubRequest {
  readonly method: string
  /** With its query. */
  readonly url: string
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: string | undefined
}

export interface HubResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** What is to go wrong with a request. */
export interface Fault {
  /** The answer; absent: none ever comes. */
  readonly status?: number
  /** Whether the request is carried out all the same. */
  readonly carriedOut?: boolean
  readonly headers?: Readonly<Record<string, string>>
  readonly message?: string
}

export interface FakeGithubOptions {
  readonly repository?: string
  /** Milliseconds since 1970. */
  readonly now?: () => number
  /** Reads lag behind writes by less than this. */
  readonly lagMs?: number
  readonly seed?: number
  readonly allowance?: Allowance
  readonly openapi?: OpenApi
}

type Route = readonly [
  method: string,
  pattern: RegExp,
  kind: 'read' | 'write' | 'create',
  answer: (call: Call) => Answer,
]

interface Call {
  readonly login: string
  readonly parts: readonly string[]
  readonly query: ReadonlyMap<string, string>
  readonly body: Readonly<Record<string, unknown>>
}

interface Answer {
  readonly status: number
  readonly document?: unknown
  readonly link?: string
}

export class FakeGithub {
  readonly repository: string
  /** Decides what goes wrong with each request. */
  fault: (request: HubRequest) => Fault | undefined = () => undefined
  /** What was not as GitHub's description has it. */
  readonly complaints: string[] = []
  /** Method and path of every request. */
  readonly log: string[] = []
  lagMs: number
  readonly comments: Lagging<StoredComment>
  readonly issues: Lagging<StoredIssue>
  readonly #now: () => number
  readonly #random: () => number
  readonly #openapi: OpenApi | undefined
  readonly #permissions = new Map<string, Permission>()
  readonly #tokens = new Map<string, string>()
  readonly #meters = new Map<string, Meter>()
  readonly #allowance: Allowance
  #lastId = 1_000_000
  #lastIssue = 0

  constructor(options: FakeGithubOptions = {}) {
    this.repository = options.repository ?? 'acme/tasks'
    this.#now = options.now ?? Date.now
    this.lagMs = options.lagMs ?? 0
    this.#random = seededRandom(options.seed ?? 1)
    this.#allowance = options.allowance ?? githubsAllowance
    this.#openapi = options.openapi
    // Half of all reads are fresh: replicas differ.
    const lag = (): number => (this.#random() < 0.5 ? 0 : Math.floor(this.#random() * this.lagMs))
    this.comments = new Lagging(this.#now, lag)
    this.issues = new Lagging(this.#now, lag)
  }

  /** Lets an account in, or changes what it may do. */
  user(login: string, permission: Permission, ...tokens: readonly string[]): void {
    this.#permissions.set(login, permission)
    for (const token of tokens) this.#tokens.set(token, login)
  }

  revoke(token: string): void {
    this.#tokens.delete(token)
  }

  meter(login: string): Meter {
    const meter = this.#meters.get(login) ?? new Meter(this.#allowance)
    this.#meters.set(login, meter)
    return meter
  }

  /** Opens an issue as a person would. */
  openIssue(title: string, author: string, labels: readonly string[] = []): number {
    return this.#createIssue(author, title, '', labels).number
  }

  comment(issue: number, author: string, body: string): StoredComment {
    const [now, id] = [this.#now(), (this.#lastId += 1)]
    const comment = { id, issue, author, body, createdAt: now, updatedAt: now }
    this.comments.set(id, comment)
    return comment
  }

  edit(id: number, body: string): void {
    const comment = this.comments.get(id)
    if (comment !== undefined) this.comments.set(id, { ...comment, body, updatedAt: this.#now() })
  }

  /** The comments of an issue as they are, in their order. */
  thread(issue: number): StoredComment[] {
    const { lagMs } = this
    this.lagMs = 0
    const comments = this.#commentsSeen((comment) => comment.issue === issue)
    this.lagMs = lagMs
    return comments
  }

  /** All issues and comments are gone. Ids go on. */
  empty(): void {
    this.comments.clear()
    this.issues.clear()
  }

  /** Answers a request; undefined: never. */
  handle(request: HubRequest): HubResponse | undefined {
    const [path = '', search = ''] = request.url.replace(/^https?:\/\/[^/]+/, '').split('?')
    this.log.push(`${request.method} ${path}`)
    const fault = this.fault(request)
    if (fault !== undefined && fault.carriedOut !== true) return this.#faulty(request, path, search, fault)
    const response = this.#respond(request, path, search)
    return fault === undefined ? response : this.#faulty(request, path, search, fault)
  }

  #faulty(request: HubRequest, path: string, search: string, fault: Fault): HubResponse | undefined {
    if (fault.status === undefined) return undefined
    const document = errorDocument(fault.status, fault.message ?? 'A planned fault')
    const { body } = request
    this.#check(request.method, path, queryOf(search), body, fault.status, document)
    return this.#response(fault.status, document, fault.headers ?? {})
  }

  #respond(request: HubRequest, path: string, search: string): HubResponse {
    const { method, headers, body } = request
    const query = queryOf(search)
    const login = this.#tokens.get(/^(?:token|bearer) (.+)$/i.exec(headers['authorization'] ?? '')?.[1] ?? '')
    const route = this.#routes.find(([verb, pattern]) => verb === method && pattern.test(path))
    const refuse = (status: number, message: string, more: Readonly<Record<string, string>> = {}): HubResponse => {
      const document = errorDocument(status, message)
      this.#check(method, path, query, body, status, document)
      return this.#response(status, document, more)
    }
    if (login === undefined) return refuse(401, 'Bad credentials')
    if (route === undefined) return refuse(404, 'Not Found')
    const meter = this.meter(login)
    const exceeded = meter.take(this.#now(), route[2])
    if (exceeded === 'primary') return refuse(403, 'API rate limit exceeded for user.', meter.headers())
    if (exceeded === 'secondary') {
      return refuse(403, 'You have exceeded a secondary rate limit.', { ...meter.headers(), 'retry-after': '60' })
    }
    const parts = (route[1].exec(path) ?? []).slice(1).map(decodeURIComponent)
    const given = body === undefined ? {} : (JSON.parse(body) as Record<string, unknown>)
    const answer = this.#mayRead(login) ? route[3]({ login, parts, query, body: given }) : notFound
    const text = answer.document === undefined ? '' : JSON.stringify(answer.document)
    const etag = `W/"${createHash('sha256').update(text).digest('hex')}"`
    const more = { ...(answer.link !== undefined && { link: answer.link }), ...(method === 'GET' && { etag }) }
    if (method === 'GET' && headers['if-none-match'] === etag) {
      meter.giveBack()
      this.#check(method, path, query, body, 304, undefined)
      return this.#response(304, undefined, { ...more, ...meter.headers() })
    }
    this.#check(method, path, query, body, answer.status, answer.document)
    return this.#response(answer.status, answer.document, { ...more, ...meter.headers() })
  }

  #response(status: number, document: unknown, headers: Readonly<Record<string, string>>): HubResponse {
    const body = document === undefined ? '' : JSON.stringify(document)
    const date = new Date(Math.floor(this.#now() / 1000) * 1000).toUTCString()
    const type = body === '' ? {} : { 'content-type': 'application/json; charset=utf-8' }
    return { status, body, headers: { date, ...type, ...headers } }
  }

  #check(
    method: string,
    path: string,
    query: ReadonlyMap<string, string>,
    body: string | undefined,
    status: number,
    answer: unknown,
  ): void {
    const given: unknown = body === undefined ? undefined : JSON.parse(body)
    const found = this.#openapi?.complaints({ method, path, query, body: given, status, answer }) ?? []
    this.complaints.push(...found)
  }

  // ---- what it can do

  get #routes(): readonly Route[] {
    const own = `/repos/${this.repository}`
    const at = (rest: string): RegExp => new RegExp(`^${own}${rest}$`)
    return [
      ['GET', at(''), 'read', ({ login }) => this.#repositoryOf(login)],
      ['GET', at('/collaborators/([^/]+)/permission'), 'read', ({ parts }) => this.#permissionOf(parts[0] ?? '')],
      ['GET', at('/issues'), 'read', (call) => this.#listIssues(call)],
      ['POST', at('/issues'), 'create', (call) => this.#postIssue(call)],
      ['GET', at('/issues/comments'), 'read', (call) => this.#listComments(call, () => true)],
      ['PATCH', at(String.raw`/issues/comments/(\d+)`), 'write', (call) => this.#patchComment(call)],
      ['DELETE', at(String.raw`/issues/comments/(\d+)`), 'write', (call) => this.#deleteComment(call)],
      ['GET', at(String.raw`/issues/(\d+)/comments`), 'read', (call) => this.#issueComments(call)],
      ['POST', at(String.raw`/issues/(\d+)/comments`), 'create', (call) => this.#postComment(call)],
      ['POST', at(String.raw`/issues/(\d+)/assignees`), 'write', (call) => this.#assign(call, true)],
      ['DELETE', at(String.raw`/issues/(\d+)/assignees`), 'write', (call) => this.#assign(call, false)],
      ['POST', at(String.raw`/issues/(\d+)/labels`), 'write', (call) => this.#addLabels(call)],
      ['DELETE', at(String.raw`/issues/(\d+)/labels/([^/]+)`), 'write', (call) => this.#removeLabel(call)],
    ]
  }

  #mayRead(login: string): boolean {
    return (this.#permissions.get(login) ?? 'none') !== 'none'
  }

  #mayWrite(login: string): boolean {
    return ['admin', 'write'].includes(this.#permissions.get(login) ?? 'none')
  }

  #repositoryOf(login: string): Answer {
    const required = this.#openapi?.required('full-repository') ?? []
    return ok(repositoryDocument(this.repository, this.#permissions.get(login) ?? 'none', required))
  }

  #permissionOf(login: string): Answer {
    return ok(permissionDocument(login, this.#permissions.get(login) ?? 'none'))
  }

  #listIssues({ query }: Call): Answer {
    const wanted = query.get('labels')?.split(',') ?? []
    const issues = this.issues
      .seen()
      .filter(
        ({ labels, closed }) =>
          wanted.every((label) => labels.includes(label)) && (!closed || query.get('state') === 'all'),
      )
      .toSorted((one, other) => one.number - other.number)
    return this.#paged(query, issues, (issue) => issueDocument(this.repository, issue, 0))
  }

  #postIssue({ login, body }: Call): Answer {
    const { title, body: text, labels } = body as { title: string; body?: string; labels?: readonly string[] }
    const issue = this.#createIssue(login, title, text ?? '', this.#mayWrite(login) ? (labels ?? []) : [])
    return { status: 201, document: issueDocument(this.repository, issue, 0) }
  }

  #createIssue(author: string, title: string, body: string, labels: readonly string[]): StoredIssue {
    const [now, number, id] = [this.#now(), (this.#lastIssue += 1), (this.#lastId += 1)]
    const issue = {
      number,
      id,
      author,
      title,
      body,
      labels,
      createdAt: now,
      updatedAt: now,
      assignees: [],
      closed: false,
    }
    this.issues.set(number, issue)
    return issue
  }

  #issueComments(call: Call): Answer {
    const number = Number(call.parts[0])
    if (this.issues.get(number) === undefined) return notFound
    return this.#listComments(call, ({ issue }) => issue === number)
  }

  #commentsSeen(wanted: (comment: StoredComment) => boolean): StoredComment[] {
    return this.comments
      .seen()
      .filter(wanted)
      .toSorted((one, other) => one.id - other.id)
  }

  #listComments({ query }: Call, wanted: (comment: StoredComment) => boolean): Answer {
    const since = Date.parse(query.get('since') ?? '1970-01-01T00:00:00Z')
    const comments = this.#commentsSeen((comment) => wanted(comment) && comment.updatedAt >= since)
    return this.#paged(query, comments, (comment) => this.#documentOf(comment))
  }

  #documentOf(comment: StoredComment): unknown {
    return commentDocument(this.repository, comment, this.#permissions.get(comment.author) ?? 'none')
  }

  #postComment({ login, parts, body }: Call): Answer {
    const number = Number(parts[0])
    if (this.issues.get(number) === undefined) return notFound
    return { status: 201, document: this.#documentOf(this.comment(number, login, body['body'] as string)) }
  }

  #patchComment({ login, parts, body }: Call): Answer {
    const comment = this.comments.get(Number(parts[0]))
    if (comment === undefined) return notFound
    if (comment.author !== login && !this.#mayWrite(login)) return forbidden
    this.edit(comment.id, body['body'] as string)
    return ok(this.#documentOf(this.comments.get(comment.id) as StoredComment))
  }

  #deleteComment({ login, parts }: Call): Answer {
    const comment = this.comments.get(Number(parts[0]))
    if (comment === undefined) return notFound
    if (comment.author !== login && !this.#mayWrite(login)) return forbidden
    this.comments.set(comment.id, undefined)
    return { status: 204 }
  }

  #assign({ login, parts, body }: Call, wanted: boolean): Answer {
    const issue = this.issues.get(Number(parts[0]))
    if (issue === undefined) return notFound
    const { assignees: named } = body as { assignees: readonly string[] }
    const others = issue.assignees.filter((one) => !named.includes(one))
    const changed = { ...issue, assignees: wanted ? [...others, ...named] : others }
    if (this.#mayWrite(login)) this.issues.set(issue.number, changed)
    return { status: wanted ? 201 : 200, document: issueDocument(this.repository, changed, 0) }
  }

  #addLabels({ login, parts, body }: Call): Answer {
    const issue = this.issues.get(Number(parts[0]))
    if (issue === undefined) return notFound
    if (!this.#mayWrite(login)) return forbidden
    const labels = [...new Set([...issue.labels, ...(body['labels'] as readonly string[])])]
    this.issues.set(issue.number, { ...issue, labels })
    return ok(labels.map((name) => labelDocument(this.repository, name)))
  }

  #removeLabel({ login, parts }: Call): Answer {
    const [number, name = ''] = parts
    const issue = this.issues.get(Number(number))
    if (issue === undefined || !issue.labels.includes(name)) return notFound
    if (!this.#mayWrite(login)) return forbidden
    const labels = issue.labels.filter((one) => one !== name)
    this.issues.set(issue.number, { ...issue, labels })
    return ok(labels.map((one) => labelDocument(this.repository, one)))
  }

  #paged<Item>(query: ReadonlyMap<string, string>, items: readonly Item[], document: (item: Item) => unknown): Answer {
    const [page, perPage] = [Number(query.get('page') ?? 1), Number(query.get('per_page') ?? 30)]
    const shown = items.slice((page - 1) * perPage, page * perPage)
    const next = page * perPage < items.length
    const link = `<https://api.github.com/more?page=${page + 1}>; rel="next"`
    return { status: 200, document: shown.map(document), ...(next && { link }) }
  }
}

const notFound: Answer = { status: 404, document: errorDocument(404, 'Not Found') }
const forbidden: Answer = { status: 403, document: errorDocument(403, 'Resource not accessible') }

function ok(document: unknown): Answer {
  return { status: 200, document }
}

function errorDocument(status: number, message: string): Readonly<Record<string, string>> {
  return { message, documentation_url: 'https://docs.github.com/rest', status: String(status) }
}

function queryOf(search: string): ReadonlyMap<string, string> {
  return new Map(new URLSearchParams(search))
}

/**
 * A GitHub of our own: issues, comments, assignees, labels and who may write, with ETags, limits, reads that lag behind
 * writes, and faults on demand. It answers in the words of GitHub's API, to which `openapi.ts` holds every exchange.
 */
import { createHash } from 'node:crypto'
import { seededRandom } from '../../../src/testing/random.ts'
import type { Permission } from './documents.ts'
import { errorDocument, IssueBook, notFound } from './issue-book.ts'
import { githubsAllowance, Meter, type Allowance } from './limits.ts'
import type { OpenApi } from './openapi.ts'

export interface HubRequest {
  readonly method: string
  /** The URL with its query. */
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
  /** The status of the answer; absent if no answer ever comes. */
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

export class FakeGithub extends IssueBook {
  /** Decides what goes wrong with each request. */
  fault: (request: HubRequest) => Fault | undefined = () => undefined
  /** Exchanges that do not match GitHub's OpenAPI description. */
  readonly complaints: string[] = []
  /** Method and path of every request. */
  readonly log: string[] = []
  readonly #now: () => number
  readonly #openapi: OpenApi | undefined
  readonly #tokens = new Map<string, string>()
  readonly #meters = new Map<string, Meter>()
  readonly #allowance: Allowance

  constructor(options: FakeGithubOptions = {}) {
    const { repository = 'acme/tasks', now = Date.now, seed = 1, lagMs = 0, openapi } = options
    super(repository, now, seededRandom(seed), lagMs, openapi?.required('full-repository') ?? [])
    this.#now = now
    this.#allowance = options.allowance ?? githubsAllowance
    this.#openapi = openapi
  }

  /** Adds an account, or changes its permission. */
  user(login: string, permission: Permission, ...tokens: readonly string[]): void {
    this.permit(login, permission)
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

  /** Answers a request; undefined if no answer ever comes. */
  handle(request: HubRequest): HubResponse | undefined {
    // A GitHub Enterprise Server has its API below a path.
    const [path = '', search = ''] = request.url.replace(/^(?:https?:\/\/[^/]+)?(?:\/api\/v3)?/, '').split('?')
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
    const route = this.routes.find(([verb, pattern]) => verb === method && pattern.test(path))
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
    const answer = this.mayRead(login) ? route[3]({ login, parts, query, body: given }) : notFound
    const text = answer.document === undefined ? '' : JSON.stringify(answer.document)
    const etag = method === 'GET' ? `W/"${createHash('sha256').update(text).digest('hex')}"` : undefined
    const more = { ...(answer.link !== undefined && { link: answer.link }), ...(etag !== undefined && { etag }) }
    if (etag !== undefined && headers['if-none-match'] === etag) {
      meter.giveBack()
      this.#check(method, path, query, body, 304, undefined)
      return this.#response(304, undefined, { ...more, ...meter.headers() })
    }
    this.#check(method, path, query, body, answer.status, answer.document)
    return this.#response(answer.status, answer.document, { ...more, ...meter.headers() }, text)
  }

  #response(
    status: number,
    document: unknown,
    headers: Readonly<Record<string, string>>,
    body = document === undefined ? '' : JSON.stringify(document),
  ): HubResponse {
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
}

function queryOf(search: string): ReadonlyMap<string, string> {
  return new Map(new URLSearchParams(search))
}

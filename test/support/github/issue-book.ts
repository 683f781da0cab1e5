/** The repository behind the fake: issues, comments, labels, assignees, and permissions. */
import {
  commentDocument,
  isBot,
  issueDocument,
  labelDocument,
  permissionDocument,
  repositoryDocument,
  type Permission,
  type StoredComment,
  type StoredIssue,
} from './documents.ts'
import { Lagging } from './lagging.ts'

export type Route = readonly [
  method: string,
  pattern: RegExp,
  kind: 'read' | 'write' | 'create',
  answer: (call: Call) => Answer,
]

export interface Call {
  readonly login: string
  readonly parts: readonly string[]
  readonly query: ReadonlyMap<string, string>
  readonly body: Readonly<Record<string, unknown>>
}

export interface Answer {
  readonly status: number
  readonly document?: unknown
  readonly link?: string
}

export class IssueBook {
  readonly repository: string
  /** What is special about the repository, in the words of GitHub's API. */
  settings: { readonly archived?: boolean; readonly has_issues?: boolean } = {}
  /** Reads lag behind writes by less than this. */
  lagMs: number
  /** While set, all reads of comments show the comments of that time. */
  commentsAsOf: number | undefined
  readonly comments: Lagging<StoredComment>
  readonly issues: Lagging<StoredIssue>
  readonly #now: () => number
  /** Fields of a repository that must not be missing. */
  readonly #fields: readonly string[]
  readonly #permissions = new Map<string, Permission>()
  #routes: readonly Route[] | undefined
  #lastId = 1_000_000
  #lastIssue = 0

  constructor(repository: string, now: () => number, random: () => number, lagMs: number, fields: readonly string[]) {
    this.repository = repository
    this.lagMs = lagMs
    this.#now = now
    this.#fields = fields
    // Half of all reads are fresh: replicas differ.
    const lag = (): number => (random() < 0.5 ? 0 : Math.floor(random() * this.lagMs))
    this.comments = new Lagging(now, () => (this.commentsAsOf === undefined ? lag() : now() - this.commentsAsOf))
    this.issues = new Lagging(now, lag)
  }

  /** Changes what an account may do. */
  permit(login: string, permission: Permission): void {
    this.#permissions.set(login, permission)
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
    const { lagMs, commentsAsOf } = this
    Object.assign(this, { lagMs: 0, commentsAsOf: undefined })
    const comments = this.#commentsSeen((comment) => comment.issue === issue)
    Object.assign(this, { lagMs, commentsAsOf })
    return comments
  }

  /** All issues and comments are gone. Ids go on. */
  empty(): void {
    this.comments.clear()
    this.issues.clear()
  }

  /** The routes that the repository serves. */
  get routes(): readonly Route[] {
    return (this.#routes ??= this.#allRoutes())
  }

  #allRoutes(): readonly Route[] {
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

  mayRead(login: string): boolean {
    return (this.#permissions.get(login) ?? 'none') !== 'none'
  }

  #mayWrite(login: string): boolean {
    return ['admin', 'write'].includes(this.#permissions.get(login) ?? 'none')
  }

  #repositoryOf(login: string): Answer {
    return ok({ ...repositoryDocument(this.repository, this.#asUser(login), this.#fields), ...this.settings })
  }

  #permissionOf(login: string): Answer {
    return ok(permissionDocument(login, this.#asUser(login)))
  }

  #asUser(login: string): Permission {
    return isBot(login) ? 'none' : (this.#permissions.get(login) ?? 'none')
  }

  #listIssues({ query }: Call): Answer {
    const wanted = query.get('labels')?.split(',') ?? []
    const issues = this.issues
      .seen()
      .filter(
        ({ labels, closed }) =>
          wanted.every((label) => labels.includes(label)) && (!closed || query.get('state') === 'all'),
      )
      .toSorted((a, b) => a.number - b.number)
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
    return this.comments.seen(wanted).toSorted((a, b) => a.id - b.id)
  }

  #listComments({ query }: Call, wanted: (comment: StoredComment) => boolean): Answer {
    const since = Date.parse(query.get('since') ?? '1970-01-01T00:00:00Z')
    const comments = this.#commentsSeen(wanted).filter(({ updatedAt }) => updatedAt >= since)
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
    const rest = issue.assignees.filter((assignee) => !named.includes(assignee))
    const changed = { ...issue, assignees: wanted ? [...rest, ...named] : rest }
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
    const labels = issue.labels.filter((label) => label !== name)
    this.issues.set(issue.number, { ...issue, labels })
    return ok(labels.map((label) => labelDocument(this.repository, label)))
  }

  #paged<Item>(query: ReadonlyMap<string, string>, items: readonly Item[], document: (item: Item) => unknown): Answer {
    const [page, perPage] = [Number(query.get('page') ?? 1), Number(query.get('per_page') ?? 30)]
    const shown = items.slice((page - 1) * perPage, page * perPage)
    const next = page * perPage < items.length
    const link = `<https://api.github.com/more?page=${page + 1}>; rel="next"`
    return { status: 200, document: shown.map(document), ...(next && { link }) }
  }
}

export const notFound: Answer = { status: 404, document: errorDocument(404, 'Not Found') }
const forbidden: Answer = { status: 403, document: errorDocument(403, 'Resource not accessible') }

function ok(document: unknown): Answer {
  return { status: 200, document }
}

export function errorDocument(status: number, message: string): Readonly<Record<string, string>> {
  return { message, documentation_url: 'https://docs.github.com/rest', status: String(status) }
}

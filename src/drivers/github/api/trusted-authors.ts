import type { Environment } from '../../../core/time/environment.ts'
import type { Deadline } from './deadline.ts'
import type { GithubApi } from './github-api.ts'

/** How long an answer about somebody's rights is good for. */
const keptMs = 600_000
/** A refusal is asked about again sooner: somebody may just have been given the right. */
const refusalKeptMs = 60_000

/**
 * Whose comments count: those of users who may write to the repository. On a public one anybody can comment, and could
 * forge claims and takeovers.
 */
export class TrustedAuthors {
  readonly #api: GithubApi
  readonly #environment: Environment
  readonly #trusted: Set<string>
  readonly #known = new Map<string, { readonly counts: Promise<boolean>; readonly until: number }>()
  readonly #refused = new Set<string>()
  readonly #openedAt: number

  constructor(api: GithubApi, environment: Environment, trusted: readonly string[]) {
    this.#api = api
    this.#environment = environment
    this.#trusted = new Set(trusted)
    this.#openedAt = environment.now()
  }

  /**
   * The account of the token. Its rights were looked at when the driver was opened, and may be lost like any other's. Of
   * an app's bot GitHub says nothing: that it can edit its comment is right enough.
   */
  own(login: string): void {
    if (login.endsWith('[bot]')) this.#trusted.add(login)
    else if (!this.#known.has(login)) {
      this.#known.set(login, { counts: Promise.resolve(true), until: this.#openedAt + keptMs })
    }
  }

  /** Whether GitHub said, when it was last asked, that this account may not write. */
  isRefused(login: string): boolean {
    return this.#refused.has(login)
  }

  /** Those entries whose authors may write. */
  async ofWriters<Entry extends { readonly author: string }>(
    entries: readonly Entry[],
    deadline: Deadline,
  ): Promise<Entry[]> {
    const authors = [...new Set(entries.map(({ author }) => author))]
    const counts = await Promise.all(authors.map((author) => this.#counts(author, deadline)))
    const trustedAuthors = new Set(authors.filter((_, index) => counts[index]))
    return entries.filter(({ author }) => trustedAuthors.has(author))
  }

  #counts(author: string, deadline: Deadline): Promise<boolean> {
    if (author === '') return Promise.resolve(false)
    if (this.#trusted.has(author)) return Promise.resolve(true)
    const now = this.#environment.now()
    const known = this.#known.get(author)
    if (known !== undefined && now < known.until) return known.counts
    const counts = this.#api.mayWrite(author, deadline)
    this.#known.set(author, { counts, until: now + keptMs })
    counts.then(
      (may) => this.#noted(author, counts, may),
      () => this.#known.delete(author),
    )
    return counts
  }

  #noted(author: string, counts: Promise<boolean>, may: boolean): void {
    if (may) return void this.#refused.delete(author)
    this.#refused.add(author)
    this.#known.set(author, { counts, until: this.#environment.now() + refusalKeptMs })
  }
}

import type { Environment } from '../../../core/time/environment.ts'
import type { Deadline } from './deadline.ts'
import type { GithubApi } from './github-api.ts'

/** How long an answer about the rights of an account is cached. */
const keptMs = 600_000
/** A refusal is cached for less: the account may just have been given the right. */
const refusalKeptMs = 60_000

/**
 * Whose comments count: those of accounts that may write to the repository. On a public repository anybody can comment, and
 * could forge claims and takeovers.
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
   * Adds the account of the token. Its rights were checked when the driver was opened, and may be revoked like any other's.
   * GitHub does not tell the rights of an app's bot: that it could write its comment is enough.
   */
  own(login: string): void {
    if (login.endsWith('[bot]')) this.#trusted.add(login)
    else if (!this.#known.has(login)) {
      this.#known.set(login, { counts: Promise.resolve(true), until: this.#openedAt + keptMs })
    }
  }

  /** Whether this account might not write when GitHub was last asked. */
  isRefused(login: string): boolean {
    return this.#refused.has(login)
  }

  /** The entries whose authors may write. */
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

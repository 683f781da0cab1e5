import type { Environment } from '../../core/environment.ts'
import type { Deadline } from './deadline.ts'
import type { Hub } from './hub.ts'

/** How long an answer about somebody's rights is good for. */
const keptMs = 600_000
/** A refusal is asked about again sooner: somebody may just have been given the right. */
const refusalKeptMs = 60_000

/**
 * Whose comments count: those of users who may write to the repository. On a public one anybody can comment, and could
 * forge claims and takeovers.
 */
export class Writers {
  readonly #hub: Hub
  readonly #environment: Environment
  readonly #trusted: Set<string>
  readonly #known = new Map<string, { readonly counts: Promise<boolean>; readonly until: number }>()

  constructor(hub: Hub, environment: Environment, trusted: readonly string[]) {
    this.#hub = hub
    this.#environment = environment
    this.#trusted = new Set(trusted)
  }

  /** The account of the token, whose rights were looked at when the driver was opened. */
  trust(login: string): void {
    if (login !== '') this.#trusted.add(login)
  }

  /** Those entries whose authors may write. */
  async ofWriters<Entry extends { readonly author: string }>(
    entries: readonly Entry[],
    deadline: Deadline,
  ): Promise<Entry[]> {
    const authors = [...new Set(entries.map(({ author }) => author))]
    const counts = await Promise.all(authors.map((author) => this.#counts(author, deadline)))
    const writers = new Set(authors.filter((_, index) => counts[index]))
    return entries.filter(({ author }) => writers.has(author))
  }

  #counts(author: string, deadline: Deadline): Promise<boolean> {
    if (author === '') return Promise.resolve(false)
    if (this.#trusted.has(author)) return Promise.resolve(true)
    const now = this.#environment.now()
    const known = this.#known.get(author)
    if (known !== undefined && now < known.until) return known.counts
    const counts = this.#hub.mayWrite(author, deadline)
    this.#known.set(author, { counts, until: now + keptMs })
    counts.then(
      (may) => may || this.#known.set(author, { counts, until: this.#environment.now() + refusalKeptMs }),
      () => this.#known.delete(author),
    )
    return counts
  }
}

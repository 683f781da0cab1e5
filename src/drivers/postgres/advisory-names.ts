import type { Request, ClaimStatus } from '../../core/driver.ts'
import { advisoryKey } from './advisory-key.ts'
import { collision } from './advisory-answers.ts'
import type { AdvisorySession } from './advisory-session.ts'

/** How long a name is taken for noted: the database forgets it an hour after it was. */
const notedForMs = 600_000
const notedMax = 50_000

/** Which names are written down in the database beside their keys. Most claims are for names that are. */
export class NotedNames {
  readonly #notedAt = new Map<string, number>()
  readonly #schema: string

  constructor(schema: string) {
    this.#schema = schema
  }

  /** Notes the names of claims where that has not been done, and answers claims whose key means another name. */
  async note(
    session: AdvisorySession,
    requests: readonly Request[],
    statuses: (ClaimStatus | undefined)[],
    withinMs: number,
  ): Promise<void> {
    const now = performance.now()
    let names: Map<string, string> | undefined
    for (const request of requests) {
      if (request.op !== 'claim') continue
      const { key } = request.claim
      const isNoted = now - (this.#notedAt.get(key) ?? -Infinity) <= notedForMs
      if (!isNoted) (names ??= new Map()).set(advisoryKey(key, this.#schema), key)
    }
    if (names === undefined) return
    const taken = await session.noteNames(names, withinMs)
    if (this.#notedAt.size > notedMax) this.#notedAt.clear()
    for (const [hash, key] of names) if (!taken.has(hash)) this.#notedAt.set(key, now)
    for (const [place, request] of requests.entries()) {
      if (request.op !== 'claim') continue
      const other = taken.get(advisoryKey(request.claim.key, this.#schema))
      if (other !== undefined) statuses[place] = collision(request.claim, other)
    }
  }
}

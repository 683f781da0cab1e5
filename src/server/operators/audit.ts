import type { Logger } from '../../api/logger.ts'
import type { AuditEntry } from '../../dashboard/documents.ts'
import type { Grant } from '../call.ts'

/** Of each token, so that nobody can crowd out what others did. */
const entriesMax = 1000

/** The last evictions of this server's life, the newest first. The log has all of them. */
export class Audit {
  readonly #entries: AuditEntry[] = []
  readonly #logger: Logger | undefined

  constructor(logger: Logger | undefined) {
    this.#logger = logger
  }

  record(entry: AuditEntry): AuditEntry {
    this.#entries.unshift(entry)
    const own = this.#entries.filter(({ by }) => by === entry.by)
    if (own.length > entriesMax) this.#entries.splice(this.#entries.lastIndexOf(own.at(-1) as AuditEntry), 1)
    const { by, key, fence, reason, result } = entry
    // A client's reason may have line breaks, and would look like another eviction in the log.
    const line = JSON.stringify(reason).slice(1, -1)
    const message = `${by} evicts fence ${fence} of ${JSON.stringify(key)} (${result}): ${line}`
    this.#logger?.warn(message, { by, key, fence, reason, result })
    return entry
  }

  /** Those in namespaces that the grant covers. */
  seenBy(grant: Grant): readonly AuditEntry[] {
    return this.#entries.filter(({ namespace }) => grant.covers(namespace))
  }

  /** The eviction that ended a claim, if one did. */
  find(key: string, fence: number): AuditEntry | undefined {
    return this.#entries.find((entry) => entry.key === key && entry.fence === fence && entry.result !== 'not-held')
  }
}

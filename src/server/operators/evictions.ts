import type { ListedClaim, ClaimStatus } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { controlCharacters, describeScope, splitStoreKey } from '../../core/contract/scope.ts'
import type { AuditEntry } from '../../dashboard/documents.ts'
import type { Caller, Principal } from '../contract/call.ts'
import { checked, object, refined, string, integer } from '../../core/wire/schema.ts'
import { requestBounds } from '../../core/contract/bounds.ts'
import type { StoreAccess } from '../store/store-facade.ts'
import { checkEvictable } from '../store/store-description.ts'
import { runnerDocument } from './lock-documents.ts'
import { printable } from '../../core/printable.ts'
import type { Logger } from '../../api/client/logger.ts'

/** Which holder to evict, and the reason it is given. */
export interface Eviction {
  /** As the store has it: `NAMESPACE/named:NAME`. */
  readonly key: string
  readonly fence: number
  readonly reason: string
}

const { keyBytesMax, reasonBytesMax, positive } = requestBounds

/** The body of `POST /v1/evictions`. */
export const evictionBody = object<Eviction>({
  key: refined(string(keyBytesMax), (key) =>
    splitStoreKey(key) === undefined ? 'must begin with a namespace, as GET /v1/locks has it' : undefined,
  ),
  reason: refined(string(reasonBytesMax), reasonFault),
  fence: integer(positive),
})

function reasonFault(given: string): string | undefined {
  const reason = given.trim()
  if (reason === '') return 'must say something: it is told to the holder'
  return controlCharacters.test(reason) ? 'must be one line' : undefined
}

/** Reads the body of `POST /v1/evictions`. */
export function readEviction(body: unknown): Eviction {
  const eviction = checked(evictionBody, body, 'eviction')
  return { ...eviction, reason: eviction.reason.trim() }
}

/** What an eviction is carried out with. */
export interface EvictionContext {
  readonly store: Pick<StoreAccess, 'listFor' | 'sendFor' | 'supports'>
  readonly environment: Pick<Environment, 'wall'>
  readonly audit: Audit
}

/** Ends one holder, writes that into the audit, and says what became of it. */
export async function evictAndAudit(context: EvictionContext, caller: Caller, eviction: Eviction): Promise<AuditEntry> {
  const { store, audit } = context
  const { key, fence } = eviction
  checkEvictable(store.supports, 'eviction')
  // What the caller may not evict, it is not to learn of either: an eviction that is not allowed reads nothing.
  const page = caller.principal.may('evict', key) ? await store.listFor(caller, { key }) : undefined
  const holder = page?.keys[0]?.claims.find((claim) => claim.state === 'held' && claim.fence === fence)
  const [status] = await store.sendFor(caller, [{ op: 'evict', ...eviction }], { evictionsAreShown: true })
  const result = evictionResultOf(status)
  const entry = audit.record(auditEntryOf(context, caller.principal, eviction, { result, holder }))
  // Who it was is for those who may read.
  return caller.principal.may('read', key) ? entry : { ...entry, runner: undefined }
}

/** An eviction for the audit. If a client asked for it, the holder is not known. */
export function auditEntryOf(
  { environment }: Pick<EvictionContext, 'environment'>,
  principal: Principal,
  { key, fence, reason }: Eviction,
  { result, holder }: { readonly result: AuditEntry['result']; readonly holder?: ListedClaim | undefined },
): AuditEntry {
  const { namespace = '', scopeKey = key } = splitStoreKey(key) ?? {}
  return {
    at: new Date(environment.wall()).toISOString(),
    by: principal.name,
    namespace,
    scope: describeScope({ key: scopeKey, range: holder?.range }),
    key,
    fence,
    runner: holder && runnerDocument(holder.runner),
    reason,
    result,
  }
}

/** What an eviction's answer means. */
export function evictionResultOf(status: ClaimStatus | undefined): AuditEntry['result'] {
  if (status?.state === 'absent') return status.reason === 'evicted' ? 'evicted' : 'not-held'
  return 'unknown'
}

/** Entries kept for each token, so that one token cannot crowd out the others. */
const entriesMax = 1000
/** Entries kept in all: there may be any number of tokens, such as a JWT for each run of a job. */
export const entriesInAllMax = 10_000

/** The last evictions of this server's life, the newest first. The log has all of them. */
export class Audit {
  /** The oldest first. */
  readonly #entries = new Set<AuditEntry>()
  readonly #entriesBy = new Map<string, Set<AuditEntry>>()
  /** By key and fence, the eviction that ended a claim. */
  readonly #ends = new Map<string, AuditEntry>()
  readonly #logger: Logger | undefined

  constructor(logger: Logger | undefined) {
    this.#logger = logger
  }

  record(entry: AuditEntry): AuditEntry {
    const { by, key, fence, reason, result } = entry
    const own = this.#entriesBy.get(by) ?? new Set()
    this.#entriesBy.set(by, own.add(entry))
    this.#entries.add(entry)
    if (result !== 'not-held') this.#ends.set(endName(entry), entry)
    if (own.size > entriesMax) this.#forgetOldest(own)
    if (this.#entries.size > entriesInAllMax) this.#forgetOldest(this.#most())
    // A client's reason may have line breaks, which would pass for another eviction in the log.
    const line = JSON.stringify(reason).slice(1, -1)
    const message = printable(`${by} evicts fence ${fence} of ${JSON.stringify(key)} (${result}): ${line}`)
    this.#logger?.warn(message, { by, key, fence, reason, result })
    return entry
  }

  /** Those of keys that the principal may read. */
  seenBy(principal: Principal): readonly AuditEntry[] {
    return [...this.#entries].filter(({ key }) => principal.may('read', key)).toReversed()
  }

  /** The eviction that ended a claim, if one did. */
  find(key: string, fence: number): AuditEntry | undefined {
    return this.#ends.get(endName({ key, fence }))
  }

  /** The entries of the token that has the most. */
  #most(): ReadonlySet<AuditEntry> {
    let most: ReadonlySet<AuditEntry> = new Set()
    for (const own of this.#entriesBy.values()) if (own.size > most.size) most = own
    return most
  }

  #forgetOldest(entries: ReadonlySet<AuditEntry>): void {
    const [oldest] = entries
    if (oldest === undefined) return
    const own = this.#entriesBy.get(oldest.by)
    own?.delete(oldest)
    if (own?.size === 0) this.#entriesBy.delete(oldest.by)
    this.#entries.delete(oldest)
    const name = endName(oldest)
    if (this.#ends.get(name) === oldest) this.#ends.delete(name)
  }
}

function endName({ key, fence }: Pick<AuditEntry, 'key' | 'fence'>): string {
  return `${fence} ${key}`
}

import type { ListedClaim, ClaimStatus } from '../../core/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { controlCharacters, describeScope, splitStoreKey } from '../../core/scope.ts'
import type { AuditEntry } from '../../dashboard/documents.ts'
import type { Grant } from '../call.ts'
import { Fields, wrong } from '../fields.ts'
import { requestBounds } from '../../core/limits/bounds.ts'
import type { StoreAccess } from '../store-facade.ts'
import { checkEvictable } from '../supported.ts'
import type { Audit } from './audit.ts'
import { runnerView } from './lock-view.ts'
import { checkCovered } from './query.ts'

/** Whom to evict, and what to tell them. */
export interface Eviction {
  /** As the store has it: `NAMESPACE/named:NAME`. */
  readonly key: string
  readonly fence: number
  readonly reason: string
}

const evictionFields: ReadonlySet<string> = new Set(['key', 'fence', 'reason'] satisfies (keyof Eviction)[])
const { keyBytesMax, reasonBytesMax, positive } = requestBounds

/** Reads the body of `POST /v1/evictions`. */
export function readEviction(body: unknown): Eviction {
  const fields = new Fields(body, 'eviction', evictionFields)
  const key = fields.text('key', keyBytesMax)
  if (splitStoreKey(key) === undefined)
    throw wrong('eviction.key', 'must begin with a namespace, as GET /v1/locks has it')
  const reason = fields.text('reason', reasonBytesMax).trim()
  if (reason === '') throw wrong('eviction.reason', 'must say something: it is told to the holder')
  if (controlCharacters.test(reason)) throw wrong('eviction.reason', 'must be one line')
  return { key, fence: fields.number('fence', positive), reason }
}

/** Ends one holder, writes that down, and says what became of it. */
export async function evictHolder(
  store: Pick<StoreAccess, 'list' | 'send' | 'supports'>,
  environment: Pick<Environment, 'wall'>,
  audit: Audit,
  grant: Grant,
  eviction: Eviction,
): Promise<AuditEntry> {
  const { key, fence } = eviction
  checkCovered(grant, splitStoreKey(key)?.namespace ?? '')
  checkEvictable(store.supports, 'eviction')
  const page = await store.list({ key })
  const holder = page.keys[0]?.claims.find((claim) => claim.state === 'held' && claim.fence === fence)
  const result = holder === undefined ? 'not-held' : await resultOf(store, eviction)
  return audit.record(entryOf(environment, grant, eviction, result, holder))
}

/** An eviction for the audit. Of one that a client asked for, the holder is not known. */
export function entryOf(
  environment: Pick<Environment, 'wall'>,
  grant: Grant,
  { key, fence, reason }: Eviction,
  result: AuditEntry['result'],
  holder?: ListedClaim,
): AuditEntry {
  const { namespace = '', scopeKey = key } = splitStoreKey(key) ?? {}
  return {
    at: new Date(environment.wall()).toISOString(),
    by: grant.name,
    namespace,
    scope: describeScope({ key: scopeKey, range: holder?.range }),
    key,
    fence,
    runner: holder && runnerView(holder.runner),
    reason,
    result,
  }
}

async function resultOf(
  store: Pick<StoreAccess, 'send'>,
  { key, fence, reason }: Eviction,
): Promise<AuditEntry['result']> {
  const [status] = await store.send([{ op: 'evict', key, fence, reason }])
  return describeStatus(status)
}

/** What an eviction's answer means. */
export function describeStatus(status: ClaimStatus | undefined): AuditEntry['result'] {
  if (status?.state === 'absent') return status.reason === 'evicted' ? 'evicted' : 'not-held'
  return 'unknown'
}

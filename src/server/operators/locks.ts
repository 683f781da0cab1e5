import type { ListedKey, LockDriver } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { checkNamespace, describeScope, splitStoreKey, storeKey } from '../../core/contract/scope.ts'
import type { OperatorsLock, OperatorsLockPage } from '../../dashboard/documents.ts'
import type { Pace, Principal } from '../contract/call.ts'
import { requestsWorth } from './changes.ts'
import { lockDocument } from './lock-documents.ts'
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { LeaseholdError } from '../../core/errors.ts'
import { forbidden } from '../contract/http-error.ts'
import { readQuery } from '../contract/query.ts'
import { anyText, choice, optional, string, integer, type Described, type Schema } from '../../core/wire/schema.ts'

/** Reads of the store for one page: where a filter matches little, the page is short rather than late. */
const readsMax = 10

/** Claims of a lock that are shown; their number is shown in any case. */
const claimsOfLockMax = 60
/** A page ends when it has this many claims. */
const claimsOfPageMax = 5000

/** The locks a principal may see, page by page. */
export class LockPages {
  readonly #environment: Pick<Environment, 'wall'>
  readonly #cursors = new Cursors()

  constructor(environment: Pick<Environment, 'wall'>) {
    this.#environment = environment
  }

  async read(
    store: Pick<LockDriver, 'list'>,
    query: LockQuery,
    { principal, ...pace }: Pace & { readonly principal: Principal },
  ): Promise<OperatorsLockPage> {
    const { limit = limitDefault } = query
    const locks: OperatorsLock[] = []
    let claims = 0
    let { after, shown } = query.after === undefined ? nowhere : this.#cursors.open(query.after)
    for (let reads = 0; reads < readsMax; reads += 1) {
      await pace.turn()
      const page = await store.list({
        ...prefixOf(query),
        // With a filter several reads make a page: small ones would be many.
        limit: isFiltered(query) ? 1000 : limit,
        claims: claimsOfLockMax,
        ...(after !== undefined && { after }),
      })
      pace.charge(requestsWorth(page.keys))
      const wall = this.#environment.wall()
      for (const listed of behind(page.keys, shown)) {
        // Before its document is made, which takes long.
        if (!principal.may('read', listed.key) || !isNamed(listed.key, query)) continue
        const lock = lockDocument(listed, page.now, wall)
        if (query.state !== undefined && !isIn(lock, query.state)) continue
        if (locks.length === limit || claims >= claimsOfPageMax) {
          return { locks, next: this.#cursors.seal({ after, shown: locks.at(-1)?.key }) }
        }
        locks.push(lock)
        claims += listed.claims.length
      }
      shown = undefined
      after = page.next
      if (after === undefined) return { locks, next: undefined }
    }
    return { locks, next: this.#cursors.seal({ after, shown: undefined }) }
  }
}

const nowhere = { after: undefined, shown: undefined }

/** Keys that were not on the page before. If the last one shown is gone, all: better twice than never. */
function behind(keys: readonly ListedKey[], shown: string | undefined): readonly ListedKey[] {
  return keys.slice(keys.findIndex(({ key }) => key === shown) + 1)
}

function prefixOf({ namespace, prefix }: LockQuery): { readonly prefix?: string } {
  if (namespace === undefined) return {}
  return { prefix: storeKey(namespace, prefix === undefined ? '' : `named:${prefix}`) }
}

function isFiltered({ namespace, prefix, name, state }: LockQuery): boolean {
  return name !== undefined || state !== undefined || (prefix !== undefined && namespace === undefined)
}

function isNamed(key: string, { prefix, name }: LockQuery): boolean {
  if (prefix === undefined && name === undefined) return true
  const scope = describeScope({ key: splitStoreKey(key)?.scopeKey ?? key })
  if (prefix !== undefined && !scope.startsWith(prefix)) return false
  return name === undefined || scope.toLowerCase().includes(name.toLowerCase())
}

function isIn({ holders, waiting }: OperatorsLock, state: NonNullable<LockQuery['state']>): boolean {
  switch (state) {
    case 'held':
      return holders.some((claim) => !claim.expired)
    case 'waited-for':
      return waiting > 0
    case 'expired':
      return holders.some((claim) => claim.expired)
    case 'leaving':
      return holders.some((claim) => claim.leaving !== undefined)
  }
}

/** Where a page ended: how the store says it, and which key of the store's next page was the last to be shown. */
export interface PagePosition {
  readonly after: string | undefined
  readonly shown: string | undefined
}

const cipher = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/**
 * Places as callers carry them from page to page. A store's own place may be the name of a lock that the caller must not see, so
 * it is sealed, with a key that lives as long as the server.
 */
export class Cursors {
  readonly #key = randomBytes(32)

  seal({ after, shown }: PagePosition): string {
    const nonce = randomBytes(nonceBytes)
    const sealing = createCipheriv(cipher, this.#key, nonce)
    const sealed = Buffer.concat([sealing.update(JSON.stringify([after ?? null, shown ?? null])), sealing.final()])
    return Buffer.concat([nonce, sealing.getAuthTag(), sealed]).toString('base64url')
  }

  open(cursor: string): PagePosition {
    const bytes = Buffer.from(cursor, 'base64url')
    try {
      const opening = createDecipheriv(cipher, this.#key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
      opening.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
      const opened = Buffer.concat([opening.update(bytes.subarray(nonceBytes + tagBytes)), opening.final()])
      const [after, shown] = JSON.parse(String(opened)) as [string | null, string | null]
      return { after: after ?? undefined, shown: shown ?? undefined }
    } catch {
      const advice = 'It may be older than the server. Begin without one.'
      throw new LeaseholdError('INVALID', `after is no place that this server has given. ${advice}`)
    }
  }
}

const limitDefault = 100
const filterText = optional(string(512))

/** The query of `GET /v1/cycles`. */
export const namespaceQuery = { namespace: filterText }

/** The query of `GET /v1/locks`. */
export const locksQuery = {
  ...namespaceQuery,
  prefix: optional(described(string(512), 'What the name begins with.')),
  name: optional(described(string(512), 'What is in the name, in capitals or not.')),
  state: optional(choice('held', 'waited-for', 'expired', 'leaving')),
  after: optional(described(anyText, 'What the page before gave as next.')),
  limit: optional(integer({ least: 1, most: 1000 })),
}

/** Which locks to show. */
export type LockQuery = Described<typeof locksQuery>

/** Reads the query of `GET /v1/locks`. */
export function lockQuery(query: URLSearchParams, principal: Principal): LockQuery {
  const read = readQuery(locksQuery, query, { emptyIsAbsent: true })
  checkNamespaceCovered(principal, read.namespace)
  return read
}

/** The namespace that is asked about, if one is: the principal must cover it. */
export function namespaceParameter(query: URLSearchParams, principal: Principal): string | undefined {
  const { namespace } = readQuery(namespaceQuery, query, { emptyIsAbsent: true })
  checkNamespaceCovered(principal, namespace)
  return namespace
}

/** Refuses a namespace that is none, or that the principal does not cover. */
export function checkNamespaceCovered(principal: Principal, namespace: string | undefined): void {
  if (namespace === undefined) return
  checkNamespace(namespace)
  checkCovered(principal, namespace)
}

/** Refuses what the principal's namespaces leave out. */
function checkCovered(principal: Principal, namespace: string): void {
  if (principal.covers(namespace)) return
  throw forbidden(`The token ${JSON.stringify(principal.name)} is not for the namespace ${JSON.stringify(namespace)}.`)
}

function described<Value>(schema: Schema<Value>, description: string): Schema<Value> {
  return { ...schema, description }
}

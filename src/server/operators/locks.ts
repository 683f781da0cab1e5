import type { ListedKey, LockDriver } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { storeKey, checkNamespace } from '../../core/contract/scope.ts'
import type { OperatorsLock, OperatorsLockPage } from '../../dashboard/documents.ts'
import type { Grant } from '../contract/call.ts'
import { namespaceOf } from '../auth/rights.ts'
import { lockView } from './lock-documents.ts'
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { LeaseholdError } from '../../core/errors.ts'
import { forbidden, invalid } from '../contract/http-error.ts'

/** Reads of the store for one page: where a filter matches little, the page is short rather than late. */
const readsMax = 10

/** The locks a grant may see, page by page. */
export class LockPages {
  readonly #driver: Pick<LockDriver, 'list'>
  readonly #environment: Pick<Environment, 'wall'>
  readonly #cursors = new Cursors()

  constructor(driver: Pick<LockDriver, 'list'>, environment: Pick<Environment, 'wall'>) {
    this.#driver = driver
    this.#environment = environment
  }

  async read(grant: Grant, query: LockQuery): Promise<OperatorsLockPage> {
    const { limit } = query
    const locks: OperatorsLock[] = []
    let { after, shown } = query.after === undefined ? nowhere : this.#cursors.open(query.after)
    for (let reads = 0; reads < readsMax; reads += 1) {
      const page = await this.#driver.list({
        ...prefixOf(query),
        // Whoever filters reads on; a small page would mean many reads.
        limit: isFiltered(query) ? 1000 : limit,
        ...(after !== undefined && { after }),
      })
      const wall = this.#environment.wall()
      for (const listed of behind(page.keys, shown)) {
        if (!grant.covers(namespaceOf(listed.key))) continue
        const lock = lockView(listed, page.now, wall)
        if (!matches(lock, query)) continue
        if (locks.length === limit) return { locks, next: this.#cursors.seal({ after, shown: locks.at(-1)?.key }) }
        locks.push(lock)
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

function matches(lock: OperatorsLock, { prefix, name, state }: LockQuery): boolean {
  if (prefix !== undefined && !lock.scope.startsWith(prefix)) return false
  if (name !== undefined && !lock.scope.toLowerCase().includes(name.toLowerCase())) return false
  return state === undefined || isIn(lock, state)
}

function isIn({ holders, waiters }: OperatorsLock, state: LockState): boolean {
  switch (state) {
    case 'held':
      return holders.some((claim) => !claim.expired)
    case 'waited-for':
      return waiters.length > 0
    case 'expired':
      return holders.some((claim) => claim.expired)
    case 'leaving':
      return holders.some((claim) => claim.leaving !== undefined)
  }
}

/** Where a page ended: how the store says it, and which key of the store's next page was the last to be shown. */
export interface Place {
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

  seal({ after, shown }: Place): string {
    const nonce = randomBytes(nonceBytes)
    const sealing = createCipheriv(cipher, this.#key, nonce)
    const sealed = Buffer.concat([sealing.update(JSON.stringify([after ?? null, shown ?? null])), sealing.final()])
    return Buffer.concat([nonce, sealing.getAuthTag(), sealed]).toString('base64url')
  }

  open(cursor: string): Place {
    const bytes = Buffer.from(cursor, 'base64url')
    try {
      const opening = createDecipheriv(cipher, this.#key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
      opening.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
      const text = Buffer.concat([opening.update(bytes.subarray(nonceBytes + tagBytes)), opening.final()])
      const [after, shown] = JSON.parse(String(text)) as [string | null, string | null]
      return { after: after ?? undefined, shown: shown ?? undefined }
    } catch {
      const advice = 'It may be older than the server. Begin without one.'
      throw new LeaseholdError('INVALID', `after is no place that this server has given. ${advice}`)
    }
  }
}

/** How a lock may stand. */
export const states = ['held', 'waited-for', 'expired', 'leaving'] as const
export type LockState = (typeof states)[number]

/** Which locks to show. */
export interface LockQuery {
  readonly namespace: string | undefined
  /** What the name begins with. */
  readonly prefix: string | undefined
  /** What is in the name, in capitals or not. */
  readonly name: string | undefined
  readonly state: LockState | undefined
  readonly after: string | undefined
  readonly limit: number
}

const textLengthMax = 512
const limitDefault = 100
export const limitMax = 1000
const known: ReadonlySet<string> = new Set(['namespace', 'prefix', 'name', 'state', 'after', 'limit'])

/** Reads the query of `GET /v1/locks`. */
export function lockQuery(query: URLSearchParams, grant: Grant): LockQuery {
  checkNames(query, known)
  const state = textOf(query, 'state')
  if (state !== undefined && !isState(state)) throw invalid(`state is one of ${states.join(', ')}.`)
  return {
    namespace: namespaceParameter(query, grant),
    prefix: textOf(query, 'prefix'),
    name: textOf(query, 'name'),
    state,
    after: query.get('after') ?? undefined,
    limit: limitOf(query),
  }
}

/** The namespace that is asked about, if one is: the grant must cover it. */
export function namespaceParameter(query: URLSearchParams, grant: Grant): string | undefined {
  const namespace = textOf(query, 'namespace')
  if (namespace === undefined) return undefined
  checkNamespace(namespace)
  checkCovered(grant, namespace)
  return namespace
}

/** Refuses what the grant's namespaces leave out. */
export function checkCovered(grant: Grant, namespace: string): void {
  if (grant.covers(namespace)) return
  throw forbidden(`The token ${JSON.stringify(grant.name)} is not for the namespace ${JSON.stringify(namespace)}.`)
}

/** Refuses a parameter that means nothing: a slip of the pen would otherwise show everything. */
export function checkNames(query: URLSearchParams, names: ReadonlySet<string>): void {
  const unknown = [...query.keys()].find((name) => !names.has(name))
  if (unknown === undefined) return
  const use = names.size === 0 ? 'There are none here.' : `Use ${[...names].join(', ')}.`
  throw invalid(`There is no parameter ${JSON.stringify(unknown)}. ${use}`)
}

function limitOf(query: URLSearchParams): number {
  const text = textOf(query, 'limit')
  if (text === undefined) return limitDefault
  const limit = Number(text)
  if (Number.isInteger(limit) && limit >= 1 && limit <= limitMax) return limit
  throw invalid(`limit is a whole number from 1 to ${limitMax}.`)
}

/** A parameter's text. An empty one is as good as none: forms send them so. */
function textOf(query: URLSearchParams, name: string): string | undefined {
  const text = query.get(name) ?? ''
  if (text.length > textLengthMax) throw invalid(`${name} is longer than ${textLengthMax} characters.`)
  return text === '' ? undefined : text
}

function isState(text: string): text is LockState {
  return (states as readonly string[]).includes(text)
}

import { keyOf } from '../../core/contract/requests.ts'
import type { Claim, Request, Runner } from '../../core/contract/driver.ts'
import { isPlain, isPlainRenewal } from '../kit/plain-claim.ts'
import type { PgValue } from './connections.ts'

/** What a claim asks for beyond an exclusive lock that waits, in the names of the columns of `claims`. */
type ClaimTerms = Readonly<Record<string, string | number | boolean | undefined>>

/** A request as the function `send` reads it. */
interface RequestRow {
  readonly op: Request['op']
  readonly key: string
  readonly id?: string
  readonly ttl_ms?: number
  readonly fence?: number | undefined
  readonly reason?: string
  readonly plain?: boolean | undefined
  readonly tries?: boolean | undefined
  readonly max_hold_ms?: number | undefined
  readonly runner?: string | undefined
  readonly claim?: ClaimTerms | undefined
  readonly detached?: boolean | undefined
  readonly beside?: boolean | undefined
}

/** A batch of requests as one call of one function. */
export interface StatementBatch {
  /** The call of the function, for the schema `leasehold`. */
  readonly sql: string
  /** The requests in the order in which they are sent: by key, and as asked within a key. */
  readonly requests: readonly Request[]
  /** The place of each request in the order asked; undefined: the same order. */
  readonly places: readonly number[] | undefined
  /** The arguments of the function. */
  readonly values: readonly PgValue[]
}

const sendSql = 'select leasehold.send($1::text::json, $2, $3, $4, $5, $6, $7)::text'
const claimSql = 'select leasehold.claim_one($1, $2, $3, $4, $5, null)::text'
const unusualClaimSql = 'select leasehold.claim_one($1, $2, $3, $4, $5, $6::text::json)::text'
const renewSql = 'select leasehold.renew_one($1, $2, $3, $4)::text'
const releaseSql = 'select leasehold.release_one($1, $2, $3)::text'

const muting = `with muted as materialized (select set_config('leasehold.mute', 'on', true))`

/** The same call, in a transaction that sends no notifications. */
export function withoutNotifications(sql: string): string {
  return `${muting} ${sql} from muted`
}

export function batchOf(asked: readonly Request[], sender: string): StatementBatch {
  return (asked.length === 1 ? single(asked, sender) : undefined) ?? several(asked, sender)
}

function several(asked: readonly Request[], sender: string): StatementBatch {
  const places = isSorted(asked) ? undefined : sortedPlaces(asked)
  const requests = places?.map((place) => asked[place] as Request) ?? asked
  const usualRunner = requests.find((request) => request.op === 'claim')?.claim.runner
  const plain = { claim: 0, renew: 0, release: 0, withdraw: 0, evict: 0 }
  const renewedKeys = keysOnlyRenewed(requests)
  const rows = requests.map((request, index): RequestRow => {
    const alone = !sameKey(request, requests[index - 1]) && !sameKey(request, requests[index + 1])
    const plainRow = requestRow(request, alone, usualRunner)
    const row = renewedKeys?.has(plainRow.key) === true ? { ...plainRow, beside: true } : plainRow
    if (row.plain === true) plain[row.op] += 1
    return row
  })
  const runner = usualRunner === undefined ? null : runnerText(usualRunner)
  const counts = [rows.length, plain.claim, plain.renew, plain.release]
  return { sql: sendSql, requests, places, values: [JSON.stringify(rows), runner, sender, ...counts] }
}

/** The keys of which all requests are plain renewals, of different claims: their holders are renewed by one statement. */
function keysOnlyRenewed(requests: readonly Request[]): ReadonlySet<string> | undefined {
  if (!requests.some((request) => request.op === 'renew')) return undefined
  const idsByKey = new Map<string, Set<string>>()
  const others = new Set<string>()
  for (const request of requests) {
    const key = keyOf(request)
    if (request.op !== 'renew' || !isPlainRenewal(request)) {
      others.add(key)
      continue
    }
    const ids = idsByKey.get(key) ?? new Set()
    if (ids.has(request.id)) others.add(key)
    idsByKey.set(key, ids.add(request.id))
  }
  return new Set([...idsByKey.keys()].filter((key) => !others.has(key)))
}

/** The call for a single request; undefined: it needs more than the row of its key. */
function single(requests: readonly Request[], sender: string): StatementBatch | undefined {
  const request = requests[0] as Request
  // Half a surrogate pair would silently become another name when sent as a value of its own.
  if (!needsKeyRowOnly(request) || !keyOf(request).isWellFormed()) return undefined
  const batch = (sql: string, values: readonly PgValue[]): StatementBatch => ({
    sql,
    requests,
    places: undefined,
    values,
  })
  switch (request.op) {
    case 'claim': {
      const { claim } = request
      const terms = unusualTerms(claim)
      const values = [claim.key, claim.id, whole(claim.ttlMs), runnerText(claim.runner), sender]
      return terms === undefined ? batch(claimSql, values) : batch(unusualClaimSql, [...values, JSON.stringify(terms)])
    }
    case 'renew':
      return batch(renewSql, [request.key, request.id, whole(request.ttlMs), sender])
    case 'release':
      return batch(releaseSql, [request.key, request.id, sender])
    case 'withdraw':
    case 'evict':
      return undefined
  }
}

/** Whether the request needs no more than the row of its key, provided it is the only request of that key. */
function needsKeyRowOnly(request: Request): boolean {
  switch (request.op) {
    case 'claim':
      return request.claim.replaces === undefined && (request.claim.limit === undefined || request.claim.limit > 0)
    case 'renew':
      return isPlainRenewal(request)
    case 'release':
      return true
    case 'withdraw':
    case 'evict':
      return false
  }
}

function requestRow(request: Request, alone: boolean, usualRunner: Runner | undefined): RequestRow {
  const plain = (alone && needsKeyRowOnly(request)) || undefined
  switch (request.op) {
    case 'claim': {
      const { claim } = request
      const { key, id, replaces, wait, evict, runner } = claim
      return {
        op: 'claim',
        key,
        id,
        ttl_ms: whole(claim.ttlMs),
        plain,
        tries: (!wait && evict === undefined && replaces === undefined) || undefined,
        max_hold_ms: whole(claim.maxHoldMs),
        runner: runner === usualRunner ? undefined : runnerText(runner),
        claim: unusualTerms(claim),
      }
    }
    case 'renew': {
      const { key, id, ttlMs, fenceFloor: fence, detached } = request
      return { op: 'renew', key, id, ttl_ms: whole(ttlMs), fence, detached, plain }
    }
    case 'release':
      return { op: 'release', key: request.key, id: request.id, plain }
    case 'withdraw':
      return { op: 'withdraw', key: request.key, id: request.id }
    case 'evict':
      return { op: 'evict', key: request.key, fence: request.fence, reason: request.reason }
  }
}

/** Undefined for the usual claim: an exclusive lock of the whole key that waits, and nothing more. */
function unusualTerms(claim: Claim): ClaimTerms | undefined {
  if (isPlain(claim) && claim.wait && claim.limit === undefined && claim.staleMs === undefined) return undefined
  return {
    exclusive: claim.mode === 'exclusive' ? undefined : false,
    share_limit: claim.limit,
    range_start: claim.range?.start,
    range_end: claim.range?.end,
    replaces: claim.replaces,
    priority: claim.priority === 0 ? undefined : claim.priority,
    waits: claim.wait ? undefined : false,
    detached: claim.detached === true ? true : undefined,
    evict: claim.evict,
    stale_ms: whole(claim.staleMs),
    grace_ms: claim.graceMs === 0 ? undefined : whole(claim.graceMs),
    max_hold_ms: whole(claim.maxHoldMs),
  }
}

const texts = new WeakMap<Runner, string>()

/** The runner as text, kept, as a client's claims mostly share one. The functions expect its id first. */
function runnerText(runner: Runner): string {
  let text = texts.get(runner)
  if (text !== undefined) return text
  const { id, ...rest } = runner
  texts.set(runner, (text = JSON.stringify({ id, ...rest })))
  return text
}

function sameKey(request: Request, neighbour: Request | undefined): boolean {
  return neighbour !== undefined && keyOf(request) === keyOf(neighbour)
}

function isSorted(requests: readonly Request[]): boolean {
  for (let index = 1; index < requests.length; index += 1) {
    if (keyOf(requests[index - 1] as Request) > keyOf(requests[index] as Request)) return false
  }
  return true
}

/** The places of the requests by key. All batches lock their keys in this order, so that no two wait for each other. */
function sortedPlaces(requests: readonly Request[]): number[] {
  const key = (place: number): string => keyOf(requests[place] as Request)
  return [...requests.keys()].toSorted((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0))
}

/** The store counts in whole milliseconds. */
function whole(milliseconds: number): number
function whole(milliseconds: number | undefined): number | undefined
function whole(milliseconds: number | undefined): number | undefined {
  return milliseconds === undefined ? undefined : Math.ceil(milliseconds)
}

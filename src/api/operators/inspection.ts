import type { ListedClaim, ListedKey, Runner } from '../../core/contract/driver.ts'
import { settledWithin } from '../../core/time/bounded.ts'
import { formatDuration } from '../../core/time/duration.ts'
import { LeaseholdError, type HolderSummary } from '../../core/errors.ts'
import { printable } from '../../core/printable.ts'
import { overlaps } from '../../core/rule/conflict.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { describeScope, splitStoreKey, storeKey, type Scope } from '../../core/contract/scope.ts'
import type { Client } from '../client/client.ts'

/** How long an error waits for the list of holders: its caller has waited enough. */
const holdersWithinMs = 1000

/** A claim as operators see it. Without its id, which would be enough to release the claim. */
export interface ClaimInfo {
  readonly mode: ListedClaim['mode']
  readonly limit?: number
  readonly range?: { readonly start: number; readonly end: number }
  readonly priority: number
  /** 0 while waiting. */
  readonly fence: number
  readonly runner: Runner
  /** When the claim joined the queue. */
  readonly enteredAt: Date
  /** Absent while waiting. */
  readonly acquiredAt?: Date
  readonly lastHeartbeat: Date
  readonly renewalCount: number
  readonly expiresAt: Date
  readonly ttlMs: number
  readonly remainingMs: number
  /** The lease is over, and the store has not cleared it yet. */
  readonly expired: boolean
  /** Why the holder was asked to leave; absent if it was not. */
  readonly leaving?: string
}

/** One lock: its holders, and its waiters in the order of promotion. Of a thousand claims and more, the first are shown. */
export interface LockInfo {
  /** The scope, as people write it. */
  readonly scope: string
  readonly key: string
  readonly holders: readonly ClaimInfo[]
  readonly waiters: readonly ClaimInfo[]
  /** How many hold the lock. More than `holders` has if not all are shown; some stores count a thousand beyond those, and no further. */
  readonly held: number
  /** How many wait for the lock. More than `waiters` has if not all are shown; some stores count a thousand beyond those, and no further. */
  readonly waiting: number
}

/** A page of `locks.list`. */
export interface LockPage {
  readonly locks: readonly LockInfo[]
  /** Pass as `after` for the next page. */
  readonly next?: string
}

/** Which locks `locks.list` shows. */
export interface ListOptions {
  /**
   * Only names that begin with this.
   *
   * @default ''
   */
  readonly prefix?: string | undefined
  /**
   * The `next` of the page before.
   *
   * @default the first page
   */
  readonly after?: string | undefined
  /**
   * Locks a page, 1 to 1000.
   *
   * @default 100
   */
  readonly limit?: number | undefined
}

const listNames: OptionNames<ListOptions> = { prefix: true, after: true, limit: true }

/** Whether a scope is locked, in short. */
export interface LockStatus {
  readonly locked: boolean
  readonly by?: string
  readonly since?: Date
  readonly fence?: number
  readonly waiting: number
  readonly metadata?: Readonly<Record<string, unknown>>
}

/** One page of the namespace's locks, in the store's order. @internal */
export async function listLocks(client: Client, options: ListOptions = {}): Promise<LockPage> {
  checkOptions(options, listNames, 'list')
  const { limit } = options
  if (limit !== undefined && !(Number.isInteger(limit) && limit >= 1)) {
    throw new LeaseholdError('INVALID', `limit is ${String(limit)}. Use a whole number of locks a page, 1 to 1000.`)
  }
  const page = await client.driver.list({
    prefix: storeKey(client.namespace, options.prefix === undefined ? '' : `named:${options.prefix}`),
    ...(options.after !== undefined && { after: options.after }),
    ...(options.limit !== undefined && { limit: options.limit }),
  })
  const wall = client.environment.wall()
  const locks = page.keys.map((listed) => lockInfo(listed, page.now, wall))
  return page.next === undefined ? { locks } : { locks, next: page.next }
}

/** Every lock of the namespace, a page at a time. @internal */
export async function* eachLock(client: Client, options: ListOptions = {}): AsyncIterable<LockInfo> {
  let { after } = options
  do {
    const page = await listLocks(client, { ...options, ...(after !== undefined && { after }) })
    yield* page.locks
    after = page.next
  } while (after !== undefined)
}

/** The holders and waiters whose claims overlap the scope; null if there are none. @internal */
export async function inspectLock(client: Client, scope: Scope): Promise<LockInfo | null> {
  const page = await client.driver.list({ key: storeKey(client.namespace, scope.key) })
  const listed = page.keys[0]
  // Ranges share the key of their inode: leave out those that do not overlap the scope.
  const claims = (listed?.claims ?? []).filter((claim) => overlaps(claim, scope))
  if (listed === undefined || claims.length === 0) return null
  // How many of the claims that are not listed overlap a range is not known.
  const { held, waiting } = claims.length === listed.claims.length ? listed : {}
  const info = lockInfo({ key: listed.key, claims, held, waiting }, page.now, client.environment.wall())
  return { ...info, scope: describeScope(scope) }
}

/**
 * The holders whose claims overlap the scope, and how many waiters a claim of this priority would come after. No holders if the
 * store cannot say: this only decorates errors.
 * @internal
 */
export async function inTheWay(
  client: Client,
  scope: Scope,
  priority: number,
): Promise<{ readonly holders: readonly HolderSummary[]; readonly queuePosition?: number }> {
  try {
    const reading = client.refusals.read(storeKey(client.namespace, scope.key))
    const found = await settledWithin(client.environment, holdersWithinMs, reading)
    if (found === undefined) return { holders: [] }
    const { listed, now } = found
    const claims = (listed?.claims ?? []).filter((claim) => overlaps(claim, scope))
    const wall = client.environment.wall()
    const holders = claims.filter(({ state }) => state === 'held').map((claim) => summary(claimInfo(claim, now, wall)))
    if (!client.driver.supports.queue) return { holders }
    return { holders, queuePosition: placeInQueue(claims, listed?.waiting, priority, now) }
  } catch {
    return { holders: [] }
  }
}

/** How many of these waiters, of whom `waiting` there are in all, go before a newcomer of this priority. */
function placeInQueue(
  claims: readonly ListedClaim[],
  waiting: number | undefined,
  priority: number,
  now: number,
): number {
  const waiters = claims.filter(({ state }) => state === 'waiting')
  const ahead = waiters.filter((waiter) => waiter.priority >= priority && now < waiter.expiresAt).length
  const last = waiters.at(-1)
  // Waiters are listed in the order of promotion: those left out may go first only if the last one listed does.
  const leftOut = last !== undefined && last.priority >= priority ? (waiting ?? waiters.length) - waiters.length : 0
  return ahead + Math.max(0, leftOut)
}

/** Who holds a lock and who waits for it, in sentences. Runners and reasons are others' words: their control characters are escaped. @internal */
export function explainLock(name: string, info: LockInfo | null): string {
  if (info === null) return `${name} is free: nobody holds it and nobody waits.`
  const lines = [`${name} (${info.key})`]
  for (const holder of info.holders) lines.push(`  held by ${describeClaim(holder)}`)
  if (info.holders.length === 0) lines.push('  held by nobody: the first in line will have it as soon as it asks')
  const heldBeside = info.held - info.holders.length
  if (heldBeside > 0) lines.push(`  and held by ${atLeast(heldBeside)} more`)
  for (const [index, waiter] of info.waiters.entries()) lines.push(`  ${index + 1}. in line: ${describeClaim(waiter)}`)
  const waitingBehind = info.waiting - info.waiters.length
  if (waitingBehind > 0) lines.push(`  and ${atLeast(waitingBehind)} more in line`)
  return lines.map(printable).join('\n')
}

/** A number of claims that are not shown. Of as many as this, a store may not have counted all. @internal */
export function atLeast(count: number): string {
  return count < 1000 ? String(count) : `at least ${count}`
}

function describeClaim(claim: ClaimInfo): string {
  const { runner } = claim
  const parts = [`${runner.id} (host ${runner.host}, pid ${runner.pid})`]
  if (claim.mode === 'shared') parts.push(claim.limit === undefined ? 'shared' : `one of ${claim.limit} permits`)
  if (claim.range !== undefined) parts.push(`bytes ${claim.range.start} to ${claim.range.end}`)
  if (claim.acquiredAt !== undefined) parts.push(`since ${claim.acquiredAt.toISOString()}`, `fence ${claim.fence}`)
  else parts.push(`waiting since ${claim.enteredAt.toISOString()}`)
  if (claim.priority !== 0) parts.push(`priority ${claim.priority}`)
  if (claim.leaving !== undefined) parts.push(`asked to leave: ${claim.leaving}`)
  parts.push(claim.expired ? 'expired, to be cleared' : `${formatDuration(claim.remainingMs)} left unless renewed`)
  return parts.join(', ')
}

/** A key as operators see it. `storeNow` is the store's clock when the key was read, `wall` our wall clock. @internal */
export function lockInfo(listed: ListedKey, storeNow: number, wall: number): LockInfo {
  const claims = listed.claims.map((claim) => ({ state: claim.state, info: claimInfo(claim, storeNow, wall) }))
  const holders = claims.filter(({ state }) => state === 'held').map(({ info }) => info)
  const waiters = claims.filter(({ state }) => state === 'waiting').map(({ info }) => info)
  return {
    scope: describeScope({ key: splitStoreKey(listed.key)?.scopeKey ?? listed.key }),
    key: listed.key,
    holders,
    waiters,
    held: listed.held ?? holders.length,
    waiting: listed.waiting ?? waiters.length,
  }
}

/** Times of the store's clock become dates by their distance from the store's now: clocks need not agree. */
function claimInfo(claim: ListedClaim, storeNow: number, wall: number): ClaimInfo {
  const date = (time: number): Date => new Date(wall + (time - storeNow))
  return {
    mode: claim.mode,
    ...(claim.limit !== undefined && { limit: claim.limit }),
    ...(claim.range !== undefined && { range: claim.range }),
    priority: claim.priority,
    fence: claim.fence,
    runner: claim.runner,
    enteredAt: date(claim.enteredAt),
    ...(claim.state === 'held' && { acquiredAt: date(claim.acquiredAt) }),
    lastHeartbeat: date(claim.lastHeartbeat),
    renewalCount: claim.renewalCount,
    expiresAt: date(claim.expiresAt),
    ttlMs: claim.ttlMs,
    remainingMs: Math.max(0, Math.floor(claim.expiresAt - storeNow)),
    expired: storeNow >= claim.expiresAt,
    ...(claim.leaving !== undefined && { leaving: claim.leaving }),
  }
}

function summary(claim: ClaimInfo): HolderSummary {
  const { runner, fence, acquiredAt = claim.enteredAt, remainingMs } = claim
  return { runner, fence, acquiredAt, remainingMs }
}

/** A claim as JSON shows it, on the command line and over HTTP. Fields are only ever added. */
export interface ClaimDocument {
  readonly runner: {
    readonly id: string
    readonly host: string
    readonly pid: number
    readonly metadata: Readonly<Record<string, unknown>> | undefined
  }
  readonly mode: 'exclusive' | 'shared'
  readonly limit: number | undefined
  readonly range: { readonly start: number; readonly end: number } | undefined
  readonly priority: number
  /** 0 while waiting. */
  readonly fence: number
  readonly enteredAt: string
  /** Absent while waiting. */
  readonly acquiredAt: string | undefined
  readonly lastHeartbeat: string
  readonly renewalCount: number
  readonly expiresAt: string
  readonly ttlMs: number
  readonly remainingMs: number
  readonly expired: boolean
  readonly leaving: string | undefined
}

/** A claim for JSON. Without its id, which would be enough to release the claim. */
export function claimDocument(claim: ClaimInfo): ClaimDocument {
  const { id, host, pid, metadata } = claim.runner
  return {
    runner: { id, host, pid, metadata },
    mode: claim.mode,
    limit: claim.limit,
    range: claim.range,
    priority: claim.priority,
    fence: claim.fence,
    enteredAt: claim.enteredAt.toISOString(),
    acquiredAt: claim.acquiredAt?.toISOString(),
    lastHeartbeat: claim.lastHeartbeat.toISOString(),
    renewalCount: claim.renewalCount,
    expiresAt: claim.expiresAt.toISOString(),
    ttlMs: claim.ttlMs,
    remainingMs: Math.round(claim.remainingMs),
    expired: claim.expired,
    leaving: claim.leaving,
  }
}

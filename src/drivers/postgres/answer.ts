import { keyOf } from '../../core/contract/requests.ts'
import type { KeyPage, ListedClaim, ListedKey, Runner, ClaimStatus, Succession } from '../../core/contract/driver.ts'
import type { Batch } from './batch.ts'

/** News of a claim. Without a status it only says: ask. */
export interface PgNotification {
  readonly key: string
  readonly id: string
  readonly status?: ClaimStatus
}

/** What the function `send` answers: keys of plain requests with what became of them, then all the others. */
interface RawAnswer {
  readonly held?: readonly string[] | null
  readonly fences?: readonly number[] | null
  readonly leftMs?: readonly number[] | null
  readonly released?: readonly string[] | null
  readonly rest: readonly (ClaimStatus | PlainAnswer)[]
  readonly notifications: readonly PgNotification[] | null
}

/** What the function `send_one` answers to a plain request. */
type PlainAnswer =
  | { readonly fence: number; readonly leftMs: number }
  | { readonly released: true; readonly notifications?: readonly PgNotification[] }
  | { readonly ahead: number; readonly ttlMs: number; readonly againMs: number }

/** The statuses of a batch in the order asked, and the news that came with them. */
export function readAnswer(
  text: string,
  { requests, places }: Batch,
): { readonly statuses: readonly ClaimStatus[]; readonly notifications: readonly PgNotification[] } {
  const answer = JSON.parse(text) as RawAnswer | PlainAnswer
  if (!('rest' in answer)) return { statuses: [plainStatus(answer)], notifications: notificationsIn(answer) }
  const { held, fences, leftMs, released, rest, notifications } = answer
  const byKey = new Map<string, ClaimStatus>()
  for (const key of released ?? []) byKey.set(key, { state: 'absent', reason: 'released' })
  for (const [index, key] of (held ?? []).entries()) {
    byKey.set(key, { state: 'held', fence: fences?.[index] ?? 0, ttlMs: leftMs?.[index] ?? 0 })
  }
  const statuses: ClaimStatus[] = Array.from({ length: requests.length })
  let next = 0
  for (const [index, request] of requests.entries()) {
    const status = byKey.get(keyOf(request)) ?? restStatus(rest[next++] as ClaimStatus | PlainAnswer)
    statuses[places?.[index] ?? index] = status
  }
  return { statuses, notifications: [...(notifications ?? []).map(readNotification), ...rest.flatMap(notificationsIn)] }
}

function restStatus(answer: ClaimStatus | PlainAnswer): ClaimStatus {
  return 'state' in answer ? readStatus(answer) : plainStatus(answer)
}

function notificationsIn(answer: ClaimStatus | PlainAnswer): readonly PgNotification[] {
  return 'notifications' in answer ? (answer.notifications ?? none) : none
}

const none: readonly PgNotification[] = []

function plainStatus(answer: PlainAnswer): ClaimStatus {
  if ('released' in answer) return { state: 'absent', reason: 'released' }
  if ('ahead' in answer) return { state: 'waiting', ...answer }
  return { state: 'held', fence: answer.fence, ttlMs: answer.leftMs }
}

export function readNotification(notification: PgNotification): PgNotification {
  return notification.status === undefined ? notification : { ...notification, status: readStatus(notification.status) }
}

/** The database keeps runners as text: what they say of themselves is nobody's business there. */
function readStatus(status: ClaimStatus): ClaimStatus {
  if (status.state !== 'held' || status.after === undefined) return status
  return { ...status, after: readSuccession(status.after) }
}

function readSuccession({ how, fence, runner }: Succession): Succession {
  return { how, fence, runner: readRunner(runner as unknown as string) }
}

/** A runner that cannot be read, as somebody else wrote it, costs nobody an answer. */
function readRunner(text: string): Runner {
  try {
    return JSON.parse(text) as Runner
  } catch {
    return { id: 'unreadable', incarnation: '', host: '', pid: 0, client: '' }
  }
}

/** A row of `claims`, as JSON. */
interface ClaimRow {
  readonly key: string
  readonly id: string
  readonly held: boolean
  readonly fence: number
  readonly ttl_ms: number
  readonly entered_at: number
  readonly acquired_at: number
  readonly last_heartbeat: number
  readonly renewal_count: number
  readonly expires_at: number
  readonly leaving: string | null
  readonly exclusive: boolean
  readonly share_limit: number | null
  readonly range_start: number | null
  readonly range_end: number | null
  readonly replaces: string | null
  readonly detached: boolean
  readonly priority: number
  readonly grace_ms: number
  readonly max_hold_ms: number | null
  readonly runner: string
}

/** The page that the function `page` answered, which was asked for one key more than fits. */
export function readPage(text: string, limit: number): KeyPage {
  const { now, claims } = JSON.parse(text) as { now: number; claims: readonly ClaimRow[] }
  const keys: { key: string; claims: ListedClaim[] }[] = []
  for (const row of claims) {
    if (keys.at(-1)?.key !== row.key) keys.push({ key: row.key, claims: [] })
    keys.at(-1)?.claims.push(listedClaim(row))
  }
  const page: readonly ListedKey[] = keys.slice(0, limit)
  const last = page.at(-1)
  return { now, keys: page, ...(keys.length > limit && last !== undefined && { next: last.key }) }
}

function listedClaim(row: ClaimRow): ListedClaim {
  const { range_start: start, range_end: end } = row
  return {
    id: row.id,
    state: row.held ? 'held' : 'waiting',
    mode: row.exclusive ? 'exclusive' : 'shared',
    limit: row.share_limit ?? undefined,
    range: start === null || end === null ? undefined : { start, end },
    priority: row.priority,
    fence: row.fence,
    ttlMs: row.ttl_ms,
    graceMs: row.grace_ms,
    maxHoldMs: row.max_hold_ms ?? undefined,
    leaving: row.leaving ?? undefined,
    enteredAt: row.entered_at,
    acquiredAt: row.acquired_at,
    lastHeartbeat: row.last_heartbeat,
    renewalCount: row.renewal_count,
    expiresAt: row.expires_at,
    detached: row.detached,
    converting: !row.held && row.replaces !== null,
    runner: readRunner(row.runner),
  }
}

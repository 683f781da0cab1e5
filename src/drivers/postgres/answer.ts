import { keyOf } from '../../core/contract/requests.ts'
import type {
  KeyPage,
  ListedClaim,
  ListedKey,
  ListQuery,
  Runner,
  ClaimStatus,
  Succession,
} from '../../core/contract/driver.ts'
import { pageOfRows } from '../kit/paging.ts'
import type { StatementBatch } from './batch.ts'

/** A notification of a claim, as it comes over the channel or with an answer. Without a status: poll. */
export interface ChannelNotification {
  readonly key: string
  readonly id: string
  readonly status?: ClaimStatus
}

/** What the function `send` answers: keys of plain requests with their outcomes, then the answers to all other requests. */
interface RawAnswer {
  readonly held?: readonly string[] | null
  readonly fences?: readonly number[] | null
  readonly leftMs?: readonly number[] | null
  readonly released?: readonly string[] | null
  readonly rest: readonly (ClaimStatus | PlainAnswer)[]
  readonly notifications: readonly ChannelNotification[] | null
}

/** What the function `send_one` answers to a plain request. */
type PlainAnswer =
  | { readonly fence: number; readonly leftMs: number }
  | { readonly released: true; readonly notifications?: readonly ChannelNotification[] }
  | { readonly ahead: number; readonly ttlMs: number; readonly againMs: number }

/** The statuses of a batch in the order of its requests, and the notifications that came with them. */
export function readAnswer(
  text: string,
  { requests, places }: StatementBatch,
): { readonly statuses: readonly ClaimStatus[]; readonly notifications: readonly ChannelNotification[] } {
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

function notificationsIn(answer: ClaimStatus | PlainAnswer): readonly ChannelNotification[] {
  return 'notifications' in answer ? (answer.notifications ?? none) : none
}

const none: readonly ChannelNotification[] = []

function plainStatus(answer: PlainAnswer): ClaimStatus {
  if ('released' in answer) return { state: 'absent', reason: 'released' }
  if ('ahead' in answer) return { state: 'waiting', ...answer }
  return { state: 'held', fence: answer.fence, ttlMs: answer.leftMs }
}

function readNotification(notification: ChannelNotification): ChannelNotification {
  return notification.status === undefined ? notification : { ...notification, status: readStatus(notification.status) }
}

/** The notification in a payload; undefined: none of ours, as any session may notify a channel. Whether it makes sense, the client checks. */
export function readPayload(payload: string): ChannelNotification | undefined {
  try {
    const notification = JSON.parse(payload) as ChannelNotification
    const isOurs = typeof notification.key === 'string' && typeof notification.id === 'string'
    return isOurs ? readNotification(notification) : undefined
  } catch {
    return undefined
  }
}

/** The database keeps a runner as text, which its functions do not read. */
function readStatus(status: ClaimStatus): ClaimStatus {
  if (status.state !== 'held' || status.after === undefined) return status
  return { ...status, after: readSuccession(status.after) }
}

function readSuccession({ how, cause, fence, runner }: Succession): Succession {
  return { how, ...(cause !== undefined && { cause }), fence, runner: readRunner(runner as unknown as string) }
}

/** A runner that cannot be read, as another program wrote it, must not cost the answer. */
function readRunner(text: string): Runner {
  try {
    return JSON.parse(text) as Runner
  } catch {
    return { id: 'unreadable', incarnation: '', host: '', pid: 0, client: '' }
  }
}

/** A row of `claims`, as JSON. */
interface ListedRow {
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

/** A key as the function `page` answers it. */
interface AnsweredKey {
  readonly key: string
  readonly claims: readonly ListedRow[]
  readonly held?: number
  readonly waiting?: number
}

/** The page that the function `page` answered, which was asked for one key more than the page shows. */
export function readPage(text: string, query: ListQuery): KeyPage {
  const { now, keys, more } = JSON.parse(text) as { now: number; keys: readonly AnsweredKey[]; more: boolean }
  const page = pageOfRows(
    keys,
    { query, now },
    ({ key }) => key,
    ({ claims, ...counted }) =>
      claims.length === 0 ? undefined : ({ ...counted, claims: claims.map(listedClaim) } satisfies ListedKey),
  )
  const last = keys.at(-1)
  return more && page.next === undefined && last !== undefined ? { ...page, next: last.key } : page
}

function listedClaim(row: ListedRow): ListedClaim {
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

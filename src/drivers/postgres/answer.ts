import { keyOf } from '../../core/batcher.ts'
import type { KeyPage, ListedClaim, ListedKey, Runner, Standing, Succession } from '../../core/driver.ts'
import type { Batch } from './batch.ts'

/** News of a claim. Without a standing it only says: ask. */
export interface Notice {
  readonly key: string
  readonly id: string
  readonly standing?: Standing
}

/** What the function `send` answers: keys of plain requests with what became of them, then all the others. */
interface RawAnswer {
  readonly held?: readonly string[] | null
  readonly fences?: readonly number[] | null
  readonly leftMs?: readonly number[] | null
  readonly released?: readonly string[] | null
  readonly rest: readonly (Standing | PlainAnswer)[]
  readonly news: readonly Notice[] | null
}

/** What the function `send_one` answers to a plain request. */
type PlainAnswer =
  | { readonly fence: number; readonly leftMs: number }
  | { readonly released: true; readonly news?: readonly Notice[] }
  | { readonly ahead: number; readonly ttlMs: number; readonly againMs: number }

/** The standings of a batch in the order asked, and the news that came with them. */
export function readAnswer(
  text: string,
  { requests, places }: Batch,
): { readonly standings: readonly Standing[]; readonly news: readonly Notice[] } {
  const answer = JSON.parse(text) as RawAnswer | PlainAnswer
  if (!('rest' in answer)) return { standings: [plainStanding(answer)], news: newsIn(answer) }
  const { held, fences, leftMs, released, rest, news } = answer
  const byKey = new Map<string, Standing>()
  for (const key of released ?? []) byKey.set(key, { state: 'absent', reason: 'released' })
  for (const [index, key] of (held ?? []).entries()) {
    byKey.set(key, { state: 'held', fence: fences?.[index] ?? 0, ttlMs: leftMs?.[index] ?? 0 })
  }
  const standings: Standing[] = Array.from({ length: requests.length })
  let next = 0
  for (const [index, request] of requests.entries()) {
    const standing = byKey.get(keyOf(request)) ?? restStanding(rest[next++] as Standing | PlainAnswer)
    standings[places?.[index] ?? index] = standing
  }
  return { standings, news: [...(news ?? []).map(readNotice), ...rest.flatMap(newsIn)] }
}

function restStanding(answer: Standing | PlainAnswer): Standing {
  return 'state' in answer ? readStanding(answer) : plainStanding(answer)
}

function newsIn(answer: Standing | PlainAnswer): readonly Notice[] {
  return 'news' in answer ? (answer.news ?? none) : none
}

const none: readonly Notice[] = []

function plainStanding(answer: PlainAnswer): Standing {
  if ('released' in answer) return { state: 'absent', reason: 'released' }
  if ('ahead' in answer) return { state: 'waiting', ...answer }
  return { state: 'held', fence: answer.fence, ttlMs: answer.leftMs }
}

export function readNotice(notice: Notice): Notice {
  return notice.standing === undefined ? notice : { ...notice, standing: readStanding(notice.standing) }
}

/** The database keeps runners as text: what they say of themselves is nobody's business there. */
function readStanding(standing: Standing): Standing {
  if (standing.state !== 'held' || standing.after === undefined) return standing
  return { ...standing, after: readSuccession(standing.after) }
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

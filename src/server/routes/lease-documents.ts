/** The JSON of the routes for people and for programs in other languages. Only the answer to a claim has its id. */
import type { KeyPage, ListedClaim, Mode, Runner, Succession } from '../../core/contract/driver.ts'
import { evictionCause, mode } from '../../core/wire/replies.ts'
import {
  amount,
  anyText,
  choice,
  flag,
  integer,
  list,
  metadata,
  object,
  optional,
  type Schema,
} from '../../core/wire/schema.ts'
import { uncleanEndings } from '../../core/contract/status-check.ts'

const moment: Schema<string> = { kind: 'text', least: 0, most: Infinity, format: 'date-time' }

/** A lease that has just been granted or renewed. */
export interface LeaseDocument {
  readonly namespace: string
  readonly name: string
  /** The secret that renews and releases the lease. */
  readonly id: string
  readonly fence: number
  readonly ttlMs: number
  /** How long the lease lasted when this was written. */
  readonly expiresInMs: number
  /** For people: clocks differ. */
  readonly expiresAt: string
  /** How long the server took to answer: the lease lasts until `waitedMs` + `expiresInMs` after the call was sent, or longer. */
  readonly waitedMs: number
  /** The holder was asked to leave: the lease is not extended any more. */
  readonly leaving?: string | undefined
  /** How the last holder ended, if not by its release. */
  readonly after?: Omit<Succession, 'runner'> | undefined
}

export const leaseDocument: Schema<LeaseDocument> = object<LeaseDocument>({
  namespace: anyText,
  name: anyText,
  id: { ...anyText, description: 'The secret that renews and releases the lease.' },
  fence: { ...integer(), description: 'Higher than all fences that this lock had before.' },
  ttlMs: amount,
  expiresInMs: { ...amount, description: 'How long the lease lasted when this was written.' },
  expiresAt: { ...moment, description: 'For people: clocks differ.' },
  waitedMs: {
    ...amount,
    description:
      'How long the server took. The lease lasts until waitedMs + expiresInMs after the call was sent, or longer.',
  },
  leaving: optional({
    ...anyText,
    description: 'Why the holder was asked to leave: the lease is not extended any more.',
  }),
  after: optional(
    object<Omit<Succession, 'runner'>>({
      how: choice(...uncleanEndings),
      cause: optional({ ...evictionCause, description: 'With `evicted`: stale, reclaimed, forced or operator.' }),
      fence: integer(),
    }),
  ),
})

/** What became of a release. */
export interface ReleaseDocument {
  /** False: this id held nothing, or no longer. */
  readonly released: boolean
  readonly code?: 'NOT_HELD' | undefined
  readonly reason?: string | undefined
}

export const releaseDocument: Schema<ReleaseDocument> = object<ReleaseDocument>({
  released: { ...flag, description: 'False: this id held nothing, or no longer.' },
  code: optional(choice('NOT_HELD')),
  reason: optional(anyText),
})

/** A claim as others may see it. */
interface SeenClaim {
  readonly mode: Mode
  readonly limit?: number | undefined
  readonly priority: number
  /** 0 while waiting. */
  readonly fence: number
  readonly ttlMs: number
  readonly expiresInMs: number
  /** For how long the claim has held, or waited. */
  readonly sinceMs: number
  readonly leaving?: string | undefined
  readonly runner: Pick<Runner, 'id' | 'host' | 'pid' | 'metadata'>
}

const seenClaim: Schema<SeenClaim> = object<SeenClaim>({
  mode,
  limit: optional(integer()),
  priority: integer({ least: -Infinity, most: Infinity }),
  fence: integer(),
  ttlMs: amount,
  expiresInMs: amount,
  sinceMs: { ...amount, description: 'For how long the claim has held, or waited.' },
  leaving: optional(anyText),
  runner: object<SeenClaim['runner']>({ id: anyText, host: anyText, pid: integer(), metadata: optional(metadata) }),
})

/** A lock, held or not: its holders, then those who wait in the order in which they will be granted. */
export interface SeenLock {
  readonly namespace: string
  readonly name: string
  readonly held: number
  readonly waiting: number
  readonly holders: readonly SeenClaim[]
  readonly waiters: readonly SeenClaim[]
}

export const seenLock: Schema<SeenLock> = object<SeenLock>({
  namespace: anyText,
  name: anyText,
  held: { ...integer(), description: 'How many hold it; 0: it is free.' },
  waiting: integer(),
  holders: list(seenClaim),
  waiters: list(seenClaim),
})

/** The lock of a page that lists one key, or none if it is free. */
export function seenLockOf(place: Pick<SeenLock, 'namespace' | 'name'>, { keys, now }: KeyPage): SeenLock {
  const { claims = [], held, waiting } = keys[0] ?? {}
  const [holders, waiters] = (['held', 'waiting'] as const).map((state) =>
    claims.filter((claim) => claim.state === state).map((claim) => seenClaimOf(claim, now)),
  ) as [SeenClaim[], SeenClaim[]]
  const { namespace, name } = place
  return { namespace, name, held: held ?? holders.length, waiting: waiting ?? waiters.length, holders, waiters }
}

function seenClaimOf(claim: ListedClaim, now: number): SeenClaim {
  const { limit, priority, fence, ttlMs, leaving, runner, expiresAt, state, acquiredAt, enteredAt } = claim
  const { id, host, pid, metadata: said } = runner
  const since = state === 'held' ? acquiredAt : enteredAt
  return {
    mode: claim.mode,
    limit,
    priority,
    fence,
    ttlMs,
    expiresInMs: Math.max(0, Math.floor(expiresAt - now)),
    sinceMs: Math.max(0, Math.floor(now - since)),
    leaving,
    runner: { id, host, pid, metadata: said },
  }
}

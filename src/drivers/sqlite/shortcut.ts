import { capByMaxHold } from '../../core/admission/lease-time.ts'
import type { Claim, Request, Standing } from '../../core/driver.ts'
import { decodeRow, type ClaimRow } from './claim-row.ts'
import type { Ledger } from './ledger.ts'
import type { Observer } from './observer.ts'
import type { Statements } from './statements.ts'

type Release = Extract<Request, { op: 'release' }>

const released: Standing = { state: 'absent', reason: 'released' }

/**
 * Answers a request by a statement or two, where the rule leaves no choice: a claim on a key that nobody holds, waits for
 * or remembers is granted; the only holder of a key may leave, and whoever is first in the queue and wants the key for
 * itself takes its place. Undefined: ask the rule, nothing was written. For a request that is alone in its transaction;
 * the model test plays through here, too.
 */
export function takeShortcut(statements: Statements, ledger: Ledger, request: Request): Standing | undefined {
  if (request.op === 'release') return release(statements, ledger, request)
  if (request.op === 'claim' && request.claim.replaces === undefined)
    return claimIdleKey(statements, ledger, request.claim)
  return undefined
}

function claimIdleKey(statements: Statements, { writer, observer }: Ledger, claim: Claim): Standing | undefined {
  const { now } = observer
  const expiresAt = capByMaxHold(now + claim.ttlMs, now, claim.maxHoldMs)
  const row = statements.claimIdleKey.get(
    claim.key,
    claim.id,
    writer.name,
    claim.ttlMs,
    Number(claim.detached ?? false),
    now,
    expiresAt,
    JSON.stringify(claim),
    writer.self.boot,
  )
  return row === undefined ? undefined : held(row['fence'] as number, expiresAt - now)
}

function release(statements: Statements, ledger: Ledger, { key, id }: Release): Standing | undefined {
  const { writer, observer, crowd } = ledger
  const { now } = observer
  const isLone = (): boolean => statements.releaseLoneHolder.get(key, id, writer.name, now) !== undefined
  // What was found last is tried first.
  if (!crowd.expected && isLone()) return released
  const first = statements.firstWaiterOf.get(key)
  crowd.expected = first !== undefined
  if (first === undefined) return isLone() ? released : undefined
  const next = decodeRow(first, 'waiting')
  if (!takesTheKey(next, observer)) return undefined
  const row = statements.handOver.get(key, id, next.claim.id, writer.name, now, writer.self.boot)
  if (row === undefined) return undefined
  const standing = held(row['fence'] as number, next.expiresAt - now)
  ledger.notices.push({ owner: next.owner, key, id: next.claim.id, standing })
  return released
}

/** Whether a waiter can have the key once nobody holds it, and then has it alone. */
function takesTheKey(next: ClaimRow, observer: Observer): boolean {
  const { mode, range, replaces, maxHoldMs } = next.claim
  if (mode === 'shared' || range !== undefined || replaces !== undefined || maxHoldMs !== undefined) return false
  const leftMs = next.expiresAt - observer.now
  return leftMs > 0 && leftMs <= next.ttlMs && !observer.isForeign(next) && observer.see(next).died !== true
}

function held(fence: number, ttlMs: number): Standing {
  return { state: 'held', fence, ttlMs, leaving: undefined, after: undefined }
}

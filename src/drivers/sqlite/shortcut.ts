import { capByMaxHold } from '../../core/rule/claim-record.ts'
import type { Claim, Request, ClaimStatus } from '../../core/contract/driver.ts'
import { nextFence } from '../../core/rule/fence.ts'
import { shortRunner } from '../../core/rule/short-runner.ts'
import { termsText } from './claim-text.ts'
import { crowdValues } from './crowd-shape.ts'
import type { TransactionWriter } from './transaction-writer.ts'
import type { Statements } from './statements.ts'

type Release = Extract<Request, { op: 'release' }>

const released: ClaimStatus = { state: 'absent', reason: 'released' }

/**
 * Answers a request by a statement or two where the rule leaves no choice: a claim on a key without holder, waiter and ending is
 * granted; the only holder of a key is released, and the first waiter takes its place if it wants the whole key. Undefined: nothing was
 * written, and the rule must decide. For a request that is alone in its transaction; the model test runs through here too.
 */
export function takeShortcut(
  statements: Statements,
  writer: TransactionWriter,
  request: Request,
): ClaimStatus | undefined {
  if (request.op === 'release') return release(statements, writer, request)
  if (request.op === 'claim' && request.claim.replaces === undefined)
    return claimIdleKey(statements, writer, request.claim)
  return undefined
}

/**
 * Renews a holder by one statement. Undefined: nothing was written, and the rule must decide. A renewal concerns one holder, so this
 * serves in any batch, whatever its other requests are.
 */
export function renewOwnHolder(
  statements: Statements,
  { self, observer }: TransactionWriter,
  request: Request,
): ClaimStatus | undefined {
  if (request.op !== 'renew' || request.fenceFloor !== undefined || request.detached !== undefined) return undefined
  const { key, id, ttlMs } = request
  const row = statements.renewOwnHolder.get(key, id, self.name, observer.now, ttlMs)
  return row === undefined ? undefined : held(row['fence'] as number, ttlMs)
}

function claimIdleKey(
  statements: Statements,
  { self, observer }: TransactionWriter,
  claim: Claim,
): ClaimStatus | undefined {
  const { now } = observer
  const detached = claim.detached ?? false
  const expiresAt = capByMaxHold(now + claim.ttlMs, now, claim.maxHoldMs)
  const row = statements.claimIdleKey.get(
    claim.key,
    claim.id,
    self.name,
    claim.ttlMs,
    Number(detached),
    now,
    expiresAt,
    shortRunner(claim.runner),
    termsText(claim, claim.ttlMs, detached),
    observer.fenceFloor,
    ...crowdValues(claim, expiresAt),
  )
  return row === undefined ? undefined : held(row['fence'] as number, expiresAt - now)
}

function release(statements: Statements, writer: TransactionWriter, request: Release): ClaimStatus | undefined {
  // Try first what the last release found.
  const [likely, unlikely] = writer.contention.expected ? [handOver, leave] : [leave, handOver]
  return likely(statements, writer, request) || unlikely(statements, writer, request) ? released : undefined
}

/** Releases the holder if nobody waits. */
function leave(
  statements: Statements,
  { self, observer, contention }: TransactionWriter,
  { key, id }: Release,
): boolean {
  if (statements.releaseLoneHolder.get(key, id, self.name, observer.now) === undefined) return false
  contention.expected = false
  return true
}

/** Puts the first waiter in the holder's place, if it wants the whole key, is of this boot, is alive and has not expired. */
function handOver(statements: Statements, writer: TransactionWriter, { key, id }: Release): boolean {
  const { self, observer, contention, notifications } = writer
  const { now } = observer
  const next = statements.nextInLine.get(key, id)
  if (next === undefined || next['plain'] === 0 || next['ranged'] === 1) return false
  if (next['shared'] === 1 || next['remembered'] === 1) return false
  const { boot } = self.stamp
  const stamp = next['stamp'] as string
  if (!stamp.startsWith(`${boot}_`)) return false
  const ttlMs = (next['expires_at'] as number) - now
  // More than its ttl left: a clock was set back, and the rule shortens the lease.
  if (ttlMs <= 0 || ttlMs > (next['ttl_ms'] as number)) return false
  if (next['detached'] === 0 && observer.hasDied(stamp)) return false
  const fence = nextFence(next['fence'] as number, observer.fenceFloor)
  const nextId = next['id'] as string
  const turn = (next['sequence'] as number) + 1
  if (statements.takePlace.get(key, id, self.name, now, nextId, fence, turn) === undefined) return false
  contention.expected = true
  notifications.push({ stamp, key, id: nextId, status: held(fence, ttlMs) })
  return true
}

function held(fence: number, ttlMs: number): ClaimStatus {
  return { state: 'held', fence, ttlMs, leaving: undefined, after: undefined }
}

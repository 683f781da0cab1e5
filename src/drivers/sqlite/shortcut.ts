import { capByMaxHold } from '../../core/admission/lease-time.ts'
import type { Claim, Request, Standing } from '../../core/driver.ts'
import type { Standpoint } from './standpoint.ts'
import type { Statements } from './statements.ts'

/**
 * Answers a request by a single statement, where the rule leaves no choice: a claim on a key that nobody holds, waits for
 * or remembers is granted, and the only holder of a key that nobody waits for may leave. Undefined: ask the rule, nothing
 * was written. For a request that is alone in its transaction; the model test plays through here, too.
 */
export function takeShortcut(
  statements: Statements,
  { name, self }: Standpoint,
  now: number,
  request: Request,
): Standing | undefined {
  if (request.op === 'release') {
    const row = statements.releaseLoneHolder.get(request.key, request.id, name, now)
    return row === undefined ? undefined : { state: 'absent', reason: 'released' }
  }
  if (request.op !== 'claim' || request.claim.replaces !== undefined) return undefined
  const { claim } = request
  const expiresAt = endOf(claim, now)
  const row = statements.claimIdleKey.get(
    claim.key,
    claim.id,
    name,
    claim.ttlMs,
    Number(claim.detached ?? false),
    now,
    expiresAt,
    JSON.stringify(claim),
    self.boot,
  )
  if (row === undefined) return undefined
  const fence = row['fence'] as number
  return { state: 'held', fence, ttlMs: expiresAt - now, leaving: undefined, after: undefined }
}

function endOf(claim: Claim, now: number): number {
  return capByMaxHold(now + claim.ttlMs, now, claim.maxHoldMs)
}

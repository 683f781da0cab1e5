import type { Claim, Request, Standing } from '../../core/driver.ts'
import { capByMaxHold } from '../../core/admission/lease-time.ts'
import type { Statements } from './statements.ts'
import type { Standpoint } from './standpoint.ts'

/**
 * Answers a request in a single statement, where the rule leaves no choice: a claim on a key that nobody holds, waits for
 * or remembers is granted, and the only holder of a key that nobody waits for may leave. Undefined: ask the rule, nothing
 * was written. The model test plays through here, too.
 */
export function takeShortcut(statements: Statements, standpoint: Standpoint, request: Request): Standing | undefined {
  if (request.op === 'claim') return claimIdleKey(statements, standpoint, request.claim)
  if (request.op !== 'release') return undefined
  const row = statements.releaseLoneHolder.get(request.key, request.id, standpoint.name, standpoint.now())
  return row === undefined ? undefined : { state: 'absent', reason: 'released' }
}

function claimIdleKey(statements: Statements, standpoint: Standpoint, claim: Claim): Standing | undefined {
  if (claim.replaces !== undefined) return undefined
  // A clock read before the file is ours is never ahead of it: the lease ends no later than its owner was told.
  const now = standpoint.now()
  const expiresAt = capByMaxHold(now + claim.ttlMs, now, claim.maxHoldMs)
  const row = statements.claimIdleKey.get(
    claim.key,
    claim.id,
    standpoint.name,
    claim.ttlMs,
    Number(claim.detached ?? false),
    now,
    expiresAt,
    JSON.stringify(claim),
    standpoint.self.boot,
  )
  if (row === undefined) return undefined
  const fence = row['fence'] as number
  return { state: 'held', fence, ttlMs: expiresAt - now, leaving: undefined, after: undefined }
}

import type { Claim, Request } from '../../core/driver.ts'

/** A claim in the names of the columns of `claims`. */
type ClaimRow = Readonly<Record<string, string | number | boolean | undefined>>

/** A request as the function `send` reads it. */
export interface RequestRow {
  readonly op: Request['op']
  readonly key: string
  readonly id?: string
  readonly ttl_ms?: number
  readonly fence?: number | undefined
  readonly reason?: string
  readonly plain?: boolean
  readonly tries?: boolean
  readonly claim?: ClaimRow
}

export function requestRow(request: Request): RequestRow {
  switch (request.op) {
    case 'claim': {
      const { claim } = request
      const { key, id, limit, replaces, wait, evict } = claim
      const plain = replaces === undefined && (limit === undefined || limit > 0)
      const tries = !wait && evict === undefined
      return { op: 'claim', key, id, ttl_ms: whole(claim.ttlMs), plain, tries, claim: claimRow(claim) }
    }
    case 'renew':
      return { op: 'renew', key: request.key, id: request.id, ttl_ms: whole(request.ttlMs), fence: request.fenceFloor }
    case 'release':
      return { op: 'release', key: request.key, id: request.id }
    case 'evict':
      return { op: 'evict', key: request.key, fence: request.fence, reason: request.reason }
  }
}

function claimRow(claim: Claim): ClaimRow {
  return {
    ttl_ms: whole(claim.ttlMs),
    exclusive: claim.mode === 'exclusive',
    share_limit: claim.limit,
    range_start: claim.range?.start,
    range_end: claim.range?.end,
    replaces: claim.replaces,
    priority: claim.priority,
    waits: claim.wait,
    evict: claim.evict,
    stale_ms: whole(claim.staleMs),
    grace_ms: whole(claim.graceMs),
    max_hold_ms: whole(claim.maxHoldMs),
    runner_id: claim.runner.id,
    runner: JSON.stringify(claim.runner),
  }
}

/** The store counts in whole milliseconds; nobody is promised more than it got. */
function whole(milliseconds: number): number
function whole(milliseconds: number | undefined): number | undefined
function whole(milliseconds: number | undefined): number | undefined {
  return milliseconds === undefined ? undefined : Math.ceil(milliseconds)
}

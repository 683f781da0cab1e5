import type { ClaimInfo } from './inspection.ts'

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

/** A claim for JSON. No id: whoever knows one could release it. */
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

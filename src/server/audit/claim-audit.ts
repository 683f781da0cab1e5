import type { ClaimStatus, Notification, Request } from '../../core/contract/driver.ts'
import { claimIdOf, claimName, keyOf } from '../../core/contract/requests.ts'
import { plainMessageOf, type LeaseholdError } from '../../core/errors.ts'
import { forcedBy } from '../auth/rights.ts'
import type { Caller } from '../contract/call.ts'
import { claimMark, type AuditLog, type AuditRecord } from './audit-log.ts'

type ClaimRecordParts = Omit<AuditRecord, 'event'>

/** Records what becomes of requests: changes, forced takes, refusals, and the grants of claims that had to wait. @internal */
export class ClaimAudit {
  readonly #log: AuditLog
  readonly #withRenewals: boolean
  readonly #waitingPerTokenMax: number
  readonly #waitingMax: number
  /** What to say when a claim that waits is granted, by the claim. The oldest first. */
  readonly #waiting = new Map<string, ClaimRecordParts>()
  /** The same claims by token: nobody's waiting claims push out those of others. */
  readonly #waitingOf = new Map<string, Set<string>>()

  constructor(log: AuditLog, options: { readonly withRenewals: boolean; readonly waitingMax: number }) {
    this.#log = log
    this.#withRenewals = options.withRenewals
    this.#waitingMax = options.waitingMax
    this.#waitingPerTokenMax = Math.ceil(options.waitingMax / 2)
  }

  /** A request was not allowed. */
  refused(caller: Caller, request: Request, lack: LeaseholdError): void {
    this.#log.refusal({ event: 'refused', ...about(caller, request), why: plainMessageOf(lack) })
  }

  /** A request was carried out, as far as is known. */
  answered(caller: Caller, request: Request, status: ClaimStatus): void {
    const record = about(caller, request)
    if (request.op === 'claim') {
      if (status.state === 'waiting') this.#noteWaiting(claimName(request.claim), record)
      else this.#forget(claimName(request.claim))
    } else if (request.op !== 'evict') {
      this.#ended(claimName(request), status)
    }
    if (!this.#isRecorded(request, status)) return
    const event = request.op === 'evict' || record.rule !== undefined ? 'forced' : 'change'
    this.#log.record({ event, ...record, ...outcomeOf(status) })
  }

  /** The store says that a claim has changed. */
  notified(key: string, id: string, notification: Notification): void {
    if (notification !== 'poll') this.#ended(claimName({ key, id }), notification)
  }

  /** A renewal that only renews happens every few seconds; a claim that would not wait and was refused has changed nothing. */
  #isRecorded(request: Request, status: ClaimStatus): boolean {
    if (request.op === 'renew') {
      return this.#withRenewals || request.fenceFloor !== undefined || request.detached !== undefined
    }
    if (request.op !== 'claim' || request.claim.evict !== undefined) return true
    return !(status.state === 'absent' && status.reason === 'refused')
  }

  #noteWaiting(claim: string, record: ClaimRecordParts): void {
    const { by = '' } = record
    this.#forget(claim)
    this.#waiting.set(claim, record)
    const own = this.#waitingOf.get(by) ?? new Set()
    this.#waitingOf.set(by, own.add(claim))
    if (own.size > this.#waitingPerTokenMax) this.#forgetFirst(own)
    else if (this.#waiting.size > this.#waitingMax) this.#forgetFirst(this.#waiting)
  }

  #forgetFirst(claims: ReadonlySet<string> | ReadonlyMap<string, unknown>): void {
    for (const oldest of claims.keys()) return this.#forget(oldest)
  }

  #forget(claim: string): void {
    const { by = '' } = this.#waiting.get(claim) ?? {}
    this.#waiting.delete(claim)
    const own = this.#waitingOf.get(by)
    own?.delete(claim)
    if (own?.size === 0) this.#waitingOf.delete(by)
  }

  /** A claim that waited does so no more. */
  #ended(claim: string, status: ClaimStatus): void {
    const waited = this.#waiting.get(claim)
    if (waited === undefined || status.state === 'waiting' || status.state === 'unknown') return
    this.#forget(claim)
    if (status.state === 'held') this.#log.record({ event: 'grant', ...waited, ...outcomeOf(status) })
  }
}

function about({ principal, address }: Caller, request: Request): ClaimRecordParts {
  const id = claimIdOf(request)
  return {
    by: principal.name,
    from: address,
    op: request.op,
    key: keyOf(request),
    claim: id === undefined ? undefined : claimMark(id),
    rule: forcedBy(request),
    ...(request.op === 'evict' && { fence: request.fence, why: request.reason }),
    ...(request.op === 'renew' && { fenceFloor: request.fenceFloor }),
  }
}

function outcomeOf(status: ClaimStatus): Pick<AuditRecord, 'fence' | 'outcome' | 'tookFence'> {
  if (status.state === 'absent') return { outcome: status.reason }
  if (status.state !== 'held') return { outcome: status.state }
  const { fence, after } = status
  return { fence, outcome: 'held', ...(after?.how === 'evicted' && { tookFence: after.fence }) }
}

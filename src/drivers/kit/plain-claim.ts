import type { Claim, Request } from '../../core/contract/driver.ts'

/** Whether a claim asks for nothing beyond an exclusive lock of the whole key, waiting or not: what fast paths grant without the rule. */
export function isPlain(claim: Claim): boolean {
  return (
    takesWholeKey(claim) &&
    claim.priority === 0 &&
    claim.graceMs === 0 &&
    claim.evict === undefined &&
    claim.detached !== true
  )
}

/** Whether a claim wants the whole key alone and takes nobody's place: what a hand-over can grant, as the queue has its order already. */
export function takesWholeKey({ mode, range, replaces, maxHoldMs }: Claim): boolean {
  return mode === 'exclusive' && range === undefined && replaces === undefined && maxHoldMs === undefined
}

/** Whether a renewal changes nothing but the end of the claim. */
export function isPlainRenewal({ fenceFloor, detached }: Extract<Request, { op: 'renew' }>): boolean {
  return fenceFloor === undefined && detached === undefined
}

import type { Claim, ClaimStatus, HeldStatus } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { Quorum } from './quorum.ts'
import { agreeOnFence } from './fence-agreement.ts'
import type { MajorityGrant } from './grants.ts'
import type { Node } from './node.ts'
import { claimVerdict, majorityTtlMs, renewalVerdict } from './verdict.ts'

/** Claims on all nodes at once. Held if a majority grants the claim and agrees on its fence; else it is released everywhere. */
export async function claimOn(quorum: Quorum, wanted: Claim): Promise<ClaimStatus> {
  const { environment, grants } = quorum
  const known = grants.get(wanted)
  if (known !== undefined && environment.now() < known.until) return claimAgain(quorum, known)
  grants.delete(wanted)
  // Nodes decide alone, so each would queue claims in another order.
  const claim: Claim = { ...wanted, wait: false }
  const sentAt = environment.now()
  const granted = new Map<Node, HeldStatus>()
  const reached = new Set<Node>()
  const outcome = await quorum.ask<'held' | ClaimStatus>({
    withinMs: quorum.answerWithinMs(claim.ttlMs),
    ask: (node, answered) => {
      if (node.vote({ op: 'claim', claim }, answered)) reached.add(node)
    },
    onAnswer: (node, status) => {
      if (status.state === 'held') granted.set(node, status)
      if (status.state === 'absent') reached.delete(node)
    },
    judge: (answers) => quorum.outcome(claimVerdict(answers, quorum.majority), answers),
  })
  const status = outcome === 'held' ? await settle(quorum, claim, granted, sentAt) : outcome
  if (status.state === 'held') return status
  // A claim that was held before and has ended may be in its grace on some nodes: releasing it would end the grace.
  const isNew = status.state === 'unknown' || (status.state === 'absent' && status.reason === 'refused')
  cleanUp(quorum, claim, isNew && known === undefined ? reached : granted.keys())
  return status
}

/** Agrees on the fence of a claim that a majority granted, and notes the grant. */
async function settle(
  quorum: Quorum,
  claim: Claim,
  granted: Map<Node, HeldStatus>,
  sentAt: number,
): Promise<ClaimStatus> {
  const { environment, majority } = quorum
  const fence = await agreeOnFence(granted, majority, (behind, highest) =>
    writeBack(quorum, claim, granted, behind, highest),
  )
  if (fence === undefined) return unavailable('The nodes that granted the lock could not agree on its fence.')
  const held = [...granted.values()]
  const until = quorum.heldUntil(sentAt, majorityTtlMs(held, majority))
  const status = quorum.heldStatus(held, fence, until)
  if (status === undefined) return unavailable('The nodes took as long to answer as the lease lasts.')
  const grantedAt = environment.now()
  const { ttlMs } = claim
  quorum.grants.put({ claim, fence, ttlMs, grantedAt, until, votes: granted }, grantedAt)
  return status
}

/** Lifts the fence on nodes that gave a lower one. Settles as soon as a majority has it. */
export async function writeBack(
  quorum: Quorum,
  claim: Pick<Claim, 'key' | 'id' | 'ttlMs'>,
  granted: Map<Node, HeldStatus>,
  behind: readonly Node[],
  fence: number,
): Promise<void> {
  const { key, id, ttlMs } = claim
  const agreed = (): boolean =>
    [...granted.values()].filter((status) => status.fence === fence).length >= quorum.majority
  await quorum.ask<true>({
    nodes: behind,
    withinMs: quorum.answerWithinMs(ttlMs),
    ask: (node, answered) => node.ask({ op: 'renew', key, id, ttlMs, fenceFloor: fence }, answered),
    onAnswer: (node, status) => {
      if (status.state === 'held') granted.set(node, status)
      else granted.delete(node)
    },
    judge: (answers) => (agreed() || !answers.includes(undefined) ? true : undefined),
  })
}

/** The status of a claim that is sent again, with the fence it was granted with. */
async function claimAgain(quorum: Quorum, grant: MajorityGrant): Promise<ClaimStatus> {
  const { environment, grants, majority } = quorum
  const { claim } = grant
  const sentAt = environment.now()
  const held: HeldStatus[] = []
  const outcome = await quorum.ask<'held' | ClaimStatus>({
    nodes: [...grant.votes.keys()],
    withinMs: quorum.answerWithinMs(grant.ttlMs),
    ask: (node, answered) => node.ask({ op: 'claim', claim }, answered),
    onAnswer: (_node, status) => {
      if (status.state === 'held') held.push(status)
    },
    judge: (answers) => quorum.outcome(renewalVerdict(answers, majority), answers),
  })
  if (outcome !== 'held') {
    if (outcome.state === 'absent') grants.delete(claim)
    return outcome
  }
  const until = quorum.heldUntil(sentAt, majorityTtlMs(held, majority))
  return quorum.heldStatus(held, grant.fence, until) ?? { state: 'absent', reason: 'expired' }
}

/** Releases a claim that nobody holds on these nodes, in the background: it must not block others, nor its owner's next attempt. */
export function cleanUp(quorum: Quorum, claim: Claim, nodes: Iterable<Node>): void {
  for (const node of nodes) quorum.cleanup.release(node, claim.key, claim.id, claim.ttlMs + claim.graceMs)
}

function unavailable(message: string): ClaimStatus {
  return { state: 'unknown', error: new LeaseholdError('UNAVAILABLE', message, { reason: 'no-majority' }) }
}

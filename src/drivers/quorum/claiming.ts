import type { Claim, ClaimStatus } from '../../core/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { Assembly } from './assembly.ts'
import { agreeOnFence } from './fence-agreement.ts'
import type { Grant } from './grants.ts'
import type { Node } from './node.ts'
import { claimVerdict, majorityTtlMs, renewalVerdict, type Held } from './verdict.ts'

/**
 * Claims on all nodes at once. Held if a majority grants it and agrees on its fence; else it is released everywhere.
 */
export async function claimOn(assembly: Assembly, wanted: Claim): Promise<ClaimStatus> {
  const { environment, grants } = assembly
  const known = grants.get(wanted)
  if (known !== undefined && environment.now() < known.until) return askAgain(assembly, known)
  grants.delete(wanted)
  // Nodes decide alone, so a queue would be in another order on each.
  const claim: Claim = { ...wanted, wait: false }
  const sentAt = environment.now()
  const granted = new Map<Node, Held>()
  const reached = new Set<Node>()
  const outcome = await assembly.ask<'held' | ClaimStatus>({
    withinMs: assembly.answerWithinMs(claim.ttlMs),
    ask: (node, answered) => {
      if (node.vote({ op: 'claim', claim }, answered)) reached.add(node)
    },
    heard: (node, status) => {
      if (status.state === 'held') granted.set(node, status)
      if (status.state === 'absent') reached.delete(node)
    },
    judge: (answers) => assembly.outcome(claimVerdict(answers, assembly.majority), answers),
  })
  const told = outcome === 'held' ? await settle(assembly, claim, granted, sentAt) : outcome
  if (told.state === 'held') return told
  // One that was held before and has ended may be in its grace on some nodes: that is not for us to end.
  const isNew = told.state === 'unknown' || (told.state === 'absent' && told.reason === 'refused')
  clear(assembly, claim, isNew && known === undefined ? reached : granted.keys())
  return told
}

/** Agrees on the fence of a claim that a majority granted, and notes the grant. */
async function settle(
  assembly: Assembly,
  claim: Claim,
  granted: Map<Node, Held>,
  sentAt: number,
): Promise<ClaimStatus> {
  const { environment, majority } = assembly
  const fence = await agreeOnFence(granted, majority, (behind, highest) =>
    writeBack(assembly, claim, granted, behind, highest),
  )
  if (fence === undefined) return unavailable('The nodes that granted the lock could not agree on its fence.')
  const held = [...granted.values()]
  const until = assembly.heldUntil(sentAt, majorityTtlMs(held, majority))
  const told = assembly.told(held, fence, until)
  if (told === undefined) return unavailable('The nodes took as long to answer as the lease lasts.')
  const grantedAt = environment.now()
  const { ttlMs } = claim
  assembly.grants.put({ claim, fence, ttlMs, grantedAt, until, seats: granted }, grantedAt)
  return told
}

/** Lifts the fence on nodes that gave a lower one. Settles as soon as a majority has it. */
export async function writeBack(
  assembly: Assembly,
  claim: Pick<Claim, 'key' | 'id' | 'ttlMs'>,
  granted: Map<Node, Held>,
  behind: readonly Node[],
  fence: number,
): Promise<void> {
  const { key, id, ttlMs } = claim
  const agreed = (): boolean =>
    [...granted.values()].filter((status) => status.fence === fence).length >= assembly.majority
  await assembly.ask<true>({
    nodes: behind,
    withinMs: assembly.answerWithinMs(ttlMs),
    ask: (node, answered) => node.ask({ op: 'renew', key, id, ttlMs, fenceFloor: fence }, answered),
    heard: (node, status) => {
      if (status.state === 'held') granted.set(node, status)
      else granted.delete(node)
    },
    judge: (answers) => (agreed() || !answers.includes(undefined) ? true : undefined),
  })
}

/** A claim sent twice: how it stands by now, with the fence it was told. */
async function askAgain(assembly: Assembly, grant: Grant): Promise<ClaimStatus> {
  const { environment, grants, majority } = assembly
  const { claim } = grant
  const sentAt = environment.now()
  const held: Held[] = []
  const outcome = await assembly.ask<'held' | ClaimStatus>({
    nodes: [...grant.seats.keys()],
    withinMs: assembly.answerWithinMs(grant.ttlMs),
    ask: (node, answered) => node.ask({ op: 'claim', claim }, answered),
    heard: (_node, status) => {
      if (status.state === 'held') held.push(status)
    },
    judge: (answers) => assembly.outcome(renewalVerdict(answers, majority), answers),
  })
  if (outcome !== 'held') {
    if (outcome.state === 'absent') grants.delete(claim)
    return outcome
  }
  const until = assembly.heldUntil(sentAt, majorityTtlMs(held, majority))
  return assembly.told(held, grant.fence, until) ?? { state: 'absent', reason: 'expired' }
}

/** Nobody holds this claim: it must not stand in anybody's way, least of all in that of its owner's next try. */
export function clear(assembly: Assembly, claim: Claim, nodes: Iterable<Node>): void {
  for (const node of nodes) assembly.clearing.release(node, claim.key, claim.id, claim.ttlMs + claim.graceMs)
}

function unavailable(message: string): ClaimStatus {
  return { state: 'unknown', error: new LeaseholdError('UNAVAILABLE', message, { reason: 'no-majority' }) }
}

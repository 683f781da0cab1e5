import type { Request, ClaimStatus, HeldStatus } from '../../core/contract/driver.ts'
import type { Quorum } from './quorum.ts'
import { cleanUp, writeBack } from './claiming.ts'
import { agreeOnFence } from './fence-agreement.ts'
import type { MajorityGrant } from './grants.ts'
import type { Node, Answered } from './node.ts'
import { saidBy, Uncounted } from './voting.ts'
import { majorityTtlMs, renewalVerdict } from './verdict.ts'

type Renewal = Extract<Request, { op: 'renew' }>

/** Renews on all nodes. Held if a majority of the nodes that vote renewed, over if a majority says so, else unknown. */
export async function renewOn(quorum: Quorum, request: Renewal): Promise<ClaimStatus> {
  const { environment, grants, majority } = quorum
  const { ttlMs } = request
  const grant = grants.get(request)
  const sentAt = environment.now()
  // A node that granted the claim late learns its fence now.
  const fenceFloor = Math.max(grant?.fence ?? 0, request.fenceFloor ?? 0)
  const renewal: Renewal = fenceFloor > 0 ? { ...request, fenceFloor } : request
  const held = new Map<Node, HeldStatus>()
  const statuses = new Map<Node, ClaimStatus>()
  let isRenewed = false
  const outcome = await quorum.ask<'held' | ClaimStatus>({
    withinMs: quorum.answerWithinMs(ttlMs),
    ask: (node, answered) => node.vote(renewal, ifVoted(grant, node, answered)),
    onAnswer: (node, status) => {
      statuses.set(node, status)
      if (status.state === 'held') held.set(node, status)
      if (saidBy(status).state === 'absent') grant?.votes.delete(node)
      if (grant !== undefined && isRenewed) countVote(quorum, grant, node, status)
    },
    judge: (answers) => {
      const verdict = quorum.outcome(renewalVerdict(answers, majority), answers)
      // The fence of a claim that another process was granted is what a majority of nodes has; a late node has another.
      const isClear = verdict !== 'held' || grant !== undefined || agreedFence(held, majority) !== undefined
      return isClear || !answers.includes(undefined) ? verdict : undefined
    },
  })
  if (outcome !== 'held') {
    if (outcome.state !== 'absent') return outcome
    grants.delete(request)
    // A minority may still have the claim. Nobody holds it any more, so unless it has a grace it would only block others.
    const elsewhere = quorum.nodes.filter((node) => statuses.get(node)?.state !== 'absent')
    if (grant?.claim.graceMs === 0) cleanUp(quorum, grant.claim, elsewhere)
    return outcome
  }
  const fence = await fenceFor(quorum, request, grant, held)
  if (fence === undefined) return quorum.unknown([])
  const until = quorum.heldUntil(sentAt, majorityTtlMs([...held.values()], majority))
  if (grant !== undefined && grants.get(request) === grant) {
    Object.assign(grant, { fence, ttlMs, until })
    grants.put(grant, environment.now())
    isRenewed = true
    for (const [node, status] of statuses) countVote(quorum, grant, node, status)
  }
  return quorum.heldStatus([...held.values()], fence, until) ?? quorum.unknown([])
}

/**
 * The fence of a renewed claim: unchanged, unless the renewal asks for a higher one. If another process was granted the claim, it is
 * the fence that a majority has; if too few answered to show one, the lowest, as the answer must not exceed the fence granted.
 */
async function fenceFor(
  quorum: Quorum,
  request: Renewal,
  grant: MajorityGrant | undefined,
  held: Map<Node, HeldStatus>,
): Promise<number | undefined> {
  if (grant === undefined) {
    return agreedFence(held, quorum.majority) ?? Math.min(...[...held.values()].map(({ fence }) => fence))
  }
  if ((request.fenceFloor ?? 0) <= grant.fence) return grant.fence
  return agreeOnFence(held, quorum.majority, (behind, highest) => writeBack(quorum, request, held, behind, highest))
}

/** The fence that a majority has; undefined if none has the same. */
function agreedFence(held: ReadonlyMap<Node, HeldStatus>, majority: number): number | undefined {
  const fences = [...held.values()].map(({ fence }) => fence)
  return fences.find((fence) => fences.filter((given) => given === fence).length >= majority)
}

/**
 * Passes a node's answer on if the node has a vote for this grant by then. A node that granted the claim late may have granted the
 * lock to somebody else in between.
 */
export function ifVoted(grant: MajorityGrant | undefined, node: Node, answered: Answered): Answered {
  return (status) => {
    if (grant === undefined || grant.votes.has(node)) answered(status)
    else answered({ state: 'unknown', error: new Uncounted(`${node.name} granted the claim late.`, status) })
  }
}

/**
 * Gives a node that has none a vote for a grant that has just been renewed. A node that lost the claim is sent it once more, so that
 * a lease held for weeks outlives the restarts of all nodes in turn. If the node answers before the end of this renewal, its vote
 * counts from the next renewal on: until then nobody else can have held the lock.
 */
export function countVote(quorum: Quorum, grant: MajorityGrant, node: Node, answer: ClaimStatus): void {
  if (grant.votes.has(node)) return
  const { environment, grants } = quorum
  const { claim, votes, ttlMs } = grant
  const count = (status: ClaimStatus): void => {
    const isInTime = grants.get(claim) === grant && environment.now() < grant.until
    if (status.state === 'held' && isInTime) votes.set(node, status)
  }
  const said = saidBy(answer)
  if (said.state !== 'absent') return count(said)
  const { maxHoldMs } = claim
  const leftMs = maxHoldMs === undefined ? undefined : maxHoldMs - (environment.now() - grant.grantedAt)
  if (leftMs !== undefined && leftMs < 1) return
  node.ask({ op: 'claim', claim: { ...claim, ttlMs, evict: undefined, maxHoldMs: leftMs } }, count)
}

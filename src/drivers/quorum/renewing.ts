import type { Request, ClaimStatus } from '../../core/contract/driver.ts'
import type { Quorum } from './quorum.ts'
import { clear, writeBack } from './claiming.ts'
import { agreeOnFence } from './fence-agreement.ts'
import type { MajorityGrant } from './grants.ts'
import type { Node, Answered } from './node.ts'
import { saidBy, Uncounted } from './voting.ts'
import { majorityTtlMs, renewalVerdict, type HeldStatus } from './verdict.ts'

type Renewal = Extract<Request, { op: 'renew' }>

/**
 * Renews on all nodes. Held if a majority of those that count renewed, over if a majority says so, else to be tried
 * again.
 */
export async function renewOn(quorum: Quorum, request: Renewal): Promise<ClaimStatus> {
  const { environment, grants, majority } = quorum
  const { ttlMs } = request
  const grant = grants.get(request)
  const sentAt = environment.now()
  // Nodes that were late with the claim learn its fence now.
  const fenceFloor = Math.max(grant?.fence ?? 0, request.fenceFloor ?? 0)
  const renewal: Renewal = fenceFloor > 0 ? { ...request, fenceFloor } : request
  const held = new Map<Node, HeldStatus>()
  const answered = new Map<Node, ClaimStatus>()
  let isRenewed = false
  const outcome = await quorum.ask<'held' | ClaimStatus>({
    withinMs: quorum.answerWithinMs(ttlMs),
    ask: (node, onNotification) => node.vote(renewal, ifVoted(grant, node, onNotification)),
    onAnswer: (node, status) => {
      answered.set(node, status)
      if (status.state === 'held') held.set(node, status)
      if (saidBy(status).state === 'absent') grant?.votes.delete(node)
      if (grant !== undefined && isRenewed) countVote(quorum, grant, node, status)
    },
    judge: (answers) => {
      const verdict = quorum.outcome(renewalVerdict(answers, majority), answers)
      // Of a claim that another process was granted, the nodes know the fence, and one that was late has another.
      const isClear = verdict !== 'held' || grant !== undefined || agreedFence(held, majority) !== undefined
      return isClear || !answers.includes(undefined) ? verdict : undefined
    },
  })
  if (outcome !== 'held') {
    if (outcome.state !== 'absent') return outcome
    grants.delete(request)
    // A minority may have it still: nobody can hold it any more, and unless it is in its grace it is only in the way.
    const elsewhere = quorum.nodes.filter((node) => answered.get(node)?.state !== 'absent')
    if (grant?.claim.graceMs === 0) clear(quorum, grant.claim, elsewhere)
    return outcome
  }
  const fence = await fenceFor(quorum, request, grant, held)
  if (fence === undefined) return quorum.unknown([])
  const until = quorum.heldUntil(sentAt, majorityTtlMs([...held.values()], majority))
  if (grant !== undefined && grants.get(request) === grant) {
    Object.assign(grant, { fence, ttlMs, until })
    grants.put(grant, environment.now())
    isRenewed = true
    for (const [node, status] of answered) countVote(quorum, grant, node, status)
  }
  return quorum.told([...held.values()], fence, until) ?? quorum.unknown([])
}

/**
 * A renewal changes no fence, unless it is told to. Of a claim that another process was granted it is the fence that a
 * majority has. Where too few answer to tell, it is the lowest: who renews the claim knows its fence, and no more than that
 * may be answered.
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
  return fences.find((fence) => fences.filter((other) => other === fence).length >= majority)
}

/**
 * Passes on what a node says about a grant, if the node counts by the time it answers: one that got the claim late
 * may have been somebody else's in between.
 */
export function ifVoted(grant: MajorityGrant | undefined, node: Node, answered: Answered): Answered {
  return (status) => {
    if (grant === undefined || grant.votes.has(node)) answered(status)
    else answered({ state: 'unknown', error: new Uncounted(`${node.name} got the claim late.`, status) })
  }
}

/**
 * Gives a grant that has just been renewed its seat on a node, where it has none. A node that has lost the claim is
 * sent it once more, so that a lease held for weeks outlives the restart of one node after the other. The node counts
 * from the next renewal on, if it answers before the end that was told with this one: until then nobody else can have
 * come and gone.
 */
export function countVote(quorum: Quorum, grant: MajorityGrant, node: Node, answer: ClaimStatus): void {
  if (grant.votes.has(node)) return
  const { environment, grants } = quorum
  const { claim, votes, ttlMs } = grant
  const count = (status: ClaimStatus): void => {
    const inTime = grants.get(claim) === grant && environment.now() < grant.until
    if (status.state === 'held' && inTime) votes.set(node, status)
  }
  const said = saidBy(answer)
  if (said.state !== 'absent') return count(said)
  const { maxHoldMs } = claim
  const leftMs = maxHoldMs === undefined ? undefined : maxHoldMs - (environment.now() - grant.grantedAt)
  if (leftMs !== undefined && leftMs < 1) return
  node.ask({ op: 'claim', claim: { ...claim, ttlMs, evict: undefined, maxHoldMs: leftMs } }, count)
}

import type { ClaimStatus } from '../../core/driver.ts'
import type { Quorum } from './quorum.ts'
import type { Grant } from './grants.ts'
import type { Answered, Node } from './node.ts'
import { saidBy, Uncounted } from './uncounted.ts'

/**
 * Passes on what a node says about a grant, if the node counts by the time it answers: one that got the claim late
 * may have been somebody else's in between.
 */
export function ifVoted(grant: Grant | undefined, node: Node, answered: Answered): Answered {
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
export function countVote(quorum: Quorum, grant: Grant, node: Node, answer: ClaimStatus): void {
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

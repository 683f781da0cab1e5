import type { Request, Standing } from '../../core/driver.ts'
import type { Assembly } from './assembly.ts'
import { writeBack } from './claiming.ts'
import { agreeOnFence } from './fence-agreement.ts'
import type { Grant } from './grants.ts'
import type { Node } from './node.ts'
import { majorityTtlMs, renewalVerdict, type Held } from './verdict.ts'
import { NotVoting } from './voting.ts'

type Renewal = Extract<Request, { op: 'renew' }>

/** Renews on every node that counts. Held if a majority renewed, over if a majority says so, else to be tried again. */
export async function renewOn(assembly: Assembly, request: Renewal): Promise<Standing> {
  const { environment, grants, majority } = assembly
  const { key, id, ttlMs } = request
  const grant = grants.get(id)
  const sentAt = environment.now()
  // Nodes that were late with the claim learn its fence now.
  const fenceFloor = Math.max(grant?.fence ?? 0, request.fenceFloor ?? 0)
  const renewal: Renewal = fenceFloor > 0 ? { ...request, fenceFloor } : request
  const held = new Map<Node, Held>()
  const gone = new Set<Node>()
  let isRenewed = false
  const outcome = await assembly.ask<'held' | Standing>({
    nodes: grant === undefined ? assembly.nodes : [...grant.seats.keys()],
    withinMs: assembly.answerWithinMs(ttlMs),
    ask: (node, answered) => node.vote(renewal, answered),
    heard: (node, standing) => {
      if (standing.state === 'held') held.set(node, standing)
      if (!saysAbsent(standing)) return
      gone.add(node)
      grant?.seats.delete(node)
      if (grant !== undefined && isRenewed) claimAgain(assembly, grant, node)
    },
    judge: (answers) => assembly.outcome(renewalVerdict(answers, majority), answers),
  })
  if (outcome !== 'held') {
    if (outcome.state !== 'absent') return outcome
    grants.delete(id)
    // A minority may have it still: nobody can hold it any more, and it would only be in the way.
    for (const node of assembly.nodes) if (!gone.has(node)) assembly.clearing.release(node, key, id, ttlMs)
    return outcome
  }
  const fence = await fenceFor(assembly, request, grant, held)
  if (fence === undefined) return assembly.unknown([])
  const until = assembly.heldUntil(sentAt, majorityTtlMs([...held.values()], majority))
  if (grant !== undefined && grants.get(id) === grant) {
    Object.assign(grant, { fence, ttlMs, until })
    grants.put(grant, environment.now())
    isRenewed = true
    for (const node of assembly.nodes) if (!grant.seats.has(node)) claimAgain(assembly, grant, node)
  }
  return assembly.told([...held.values()], fence, until) ?? assembly.unknown([])
}

/**
 * A renewal changes no fence, unless it is told to. Who renews a claim that another process was granted knows its fence:
 * no more than that is answered, and the lowest is never more.
 */
async function fenceFor(
  assembly: Assembly,
  request: Renewal,
  grant: Grant | undefined,
  held: Map<Node, Held>,
): Promise<number | undefined> {
  if (grant === undefined) return Math.min(...[...held.values()].map(({ fence }) => fence))
  if ((request.fenceFloor ?? 0) <= grant.fence) return grant.fence
  return agreeOnFence(held, assembly.majority, (behind, highest) => writeBack(assembly, request, held, behind, highest))
}

/**
 * Claims once more on a node that has lost the claim, or never had it: a lease that is held for weeks outlives the restart
 * of one node after the other. The node counts from the next renewal on, if it answers before the end told by this one.
 */
function claimAgain(assembly: Assembly, grant: Grant, node: Node): void {
  const { environment, grants } = assembly
  const { claim, seats, ttlMs } = grant
  const { maxHoldMs } = claim
  const leftMs = maxHoldMs === undefined ? undefined : maxHoldMs - (environment.now() - grant.grantedAt)
  if (leftMs !== undefined && leftMs < 1) return
  node.ask({ op: 'claim', claim: { ...claim, ttlMs, evict: undefined, maxHoldMs: leftMs } }, (standing) => {
    const inTime = grants.get(claim.id) === grant && environment.now() < grant.until
    if (standing.state === 'held' && inTime) seats.set(node, standing)
  })
}

/** A node that restarted empty has no vote, but it surely does not have the claim. */
function saysAbsent(standing: Standing): boolean {
  const uncounted =
    standing.state === 'unknown' && standing.error instanceof NotVoting ? standing.error.said : undefined
  return (uncounted ?? standing).state === 'absent'
}

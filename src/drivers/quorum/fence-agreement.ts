import type { Node } from './node.ts'
import type { HeldStatus } from '../../core/contract/driver.ts'

/** Lifts the claim's fence to `fence` on these nodes, and notes in `granted` the status that each gives afterwards. */
export type WriteBack = (nodes: readonly Node[], fence: number) => Promise<void>

/**
 * The fence of a grant: the highest that any node gave the claim, once a majority is known to have exactly that one.
 * Undefined: no majority has it, and the claim must not be answered `held`.
 *
 * Why it only grows. Let a first claim be answered with fence F, and a second claim, made afterwards, with fence G.
 * The majority that agreed on F and the one that agreed on G have a node in common. That node had F noted for the
 * first claim before it gave the second one a fence, so it gave more than F, and G, the highest given, is more than
 * F. A node that minted F by itself has noted it just as a node has to which F was written back: when a majority minted
 * the same fence there is nothing to write. No clock is part of this argument, and neither is exclusion.
 *
 * Unless that node has restarted without its data in between: then G is at least the time at which it began to vote
 * again (`Node.fenceFloor`), and F was minted before. Here clocks count: they must agree to within `votesAfter`.
 */
export async function agreeOnFence(
  granted: ReadonlyMap<Node, HeldStatus>,
  majority: number,
  writeBack: WriteBack,
): Promise<number | undefined> {
  // Another round is needed only if a late node answered with a higher fence, so there are few.
  for (let rounds = 0; rounds < roundsMax && granted.size >= majority; rounds += 1) {
    const fence = Math.max(highestFence(granted), ...[...granted.keys()].map((node) => node.fenceFloor))
    const behind = [...granted].filter(([, status]) => status.fence < fence).map(([node]) => node)
    if (granted.size - behind.length >= majority) return fence
    await writeBack(behind, fence)
  }
  return undefined
}

const roundsMax = 10

/** The highest fence that any of these nodes gave. */
export function highestFence(granted: ReadonlyMap<Node, HeldStatus>): number {
  return Math.max(...[...granted.values()].map(({ fence }) => fence))
}

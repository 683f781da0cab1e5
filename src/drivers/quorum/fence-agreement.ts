import type { Node } from './node.ts'
import type { HeldStatus } from './verdict.ts'

/** Lifts the claim's fence to `fence` on these nodes, and notes in `granted` how it stands on each afterwards. */
export type WriteBack = (nodes: readonly Node[], fence: number) => Promise<void>

/**
 * The fence of a grant: the highest that any node gave the claim, once a majority is known to have exactly that one.
 * Undefined: that could not be had, and the grant must not be told.
 *
 * Why it only grows. Let one grant be told with fence F, and a second claim be made afterwards and told with fence G.
 * The majority that agreed on F and the one that agreed on G have a node in common. That node had F noted for the
 * first claim before it gave the second one a fence, so it gave more than F, and G, the highest given, is more than
 * F. A node that minted F by itself has noted it as well as one to which it was written back: when a majority minted
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
  // Each round but the last makes heard a node that was late and higher, so there are few.
  for (let rounds = 0; rounds < roundsMax && granted.size >= majority; rounds += 1) {
    const fence = Math.max(highestFence(granted), ...[...granted.keys()].map((node) => node.fenceFloor))
    const behind = [...granted].filter(([, status]) => status.fence < fence).map(([node]) => node)
    if (granted.size - behind.length >= majority) return fence
    await writeBack(behind, fence)
  }
  return undefined
}

const roundsMax = 10

export function highestFence(granted: ReadonlyMap<Node, HeldStatus>): number {
  return Math.max(...[...granted.values()].map(({ fence }) => fence))
}

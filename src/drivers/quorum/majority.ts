/** How many of so many nodes are a majority: any two majorities have a node in common. */
export function majorityOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1
}

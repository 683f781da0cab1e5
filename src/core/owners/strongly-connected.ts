/**
 * Of each node that is reached from `starts`: all those that it reaches and that reach it, itself among them. Tarjan's
 * algorithm, in time with the number of ways, and without recursion, as ways may be long.
 */
export function stronglyConnected<Node>(
  starts: Iterable<Node>,
  next: (node: Node) => Iterable<Node>,
): ReadonlyMap<Node, readonly Node[]> {
  const found = new Map<Node, readonly Node[]>()
  /** By the order in which they were reached. */
  const places = new Map<Node, number>()
  /** The first place that is known to be reached from a node, among those whose knot is not known yet. */
  const lowest = new Map<Node, number>()
  const open: Node[] = []
  const visit = (node: Node): { node: Node; rest: Iterator<Node> } => {
    lowest.set(node, places.size)
    places.set(node, places.size)
    open.push(node)
    return { node, rest: next(node)[Symbol.iterator]() }
  }
  const lower = (node: Node, place: number | undefined): void => {
    if (place !== undefined && place < (lowest.get(node) ?? place)) lowest.set(node, place)
  }
  for (const start of starts) {
    const way = places.has(start) ? [] : [visit(start)]
    for (let step = way.at(-1); step !== undefined; step = way.at(-1)) {
      const { node, rest } = step
      const { done, value: other } = rest.next()
      if (done !== true) {
        if (!places.has(other)) way.push(visit(other))
        else if (!found.has(other)) lower(node, places.get(other))
        continue
      }
      way.pop()
      const before = way.at(-1)
      if (before !== undefined) lower(before.node, lowest.get(node))
      if (lowest.get(node) !== places.get(node)) continue
      const members = open.splice(open.lastIndexOf(node))
      for (const member of members) found.set(member, members)
    }
  }
  return found
}

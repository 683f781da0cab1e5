import type { HistoryEvent, ViolationKind } from '../../../src/testing/index.ts'

interface Hold {
  readonly key: string
  readonly client: string
  readonly exclusive: boolean
  readonly limit: number
  readonly bytes: ReadonlySet<number>
  readonly limited: boolean
  readonly jumps: boolean
  readonly priority: number
  readonly invoked: number
  queued?: number
  from?: number
  fence: number
  to: number
  deadline: number
  disturbed: boolean
  over: boolean
}

const allBytes = Array.from({ length: 16 }, (_, byte) => byte)

/** The checker's rules in their plainest form: every pair, every instant, every byte. Also for histories without deadline. */
export function bruteForce(events: readonly HistoryEvent[]): Set<ViolationKind> {
  const holds = holdsOf(events)
  const found = new Set<ViolationKind>()
  const certain = (hold: Hold) => hold.from !== undefined && hold.to > hold.from
  for (const first of holds) {
    for (const second of holds) {
      if (first === second || first.key !== second.key || first.from === undefined || second.from === undefined)
        continue
      const meet = [...first.bytes].some((byte) => second.bytes.has(byte))
      const exclude = meet && (first.exclusive || second.exclusive)
      if (first.fence === second.fence) found.add('fence-repeated')
      if (first.from < second.invoked && first.fence > second.fence) found.add('fence-order')
      const together = Math.max(first.from, second.from) < Math.min(first.to, second.to)
      if (exclude && certain(first) && certain(second) && together) found.add('overlap')
      if (exclude && certain(first) && !together && first.fence < second.fence && first.to > second.from)
        found.add('fence-order')
      const inTheWay = exclude || (meet && (first.limited || second.limited))
      // `second` has overtaken `first`.
      if (first.queued === undefined || first.disturbed || first.jumps || second.jumps || !inTheWay) continue
      if (first.priority === second.priority && second.fence < first.fence && second.invoked > first.queued)
        found.add('unfair')
    }
  }
  for (const instant of holds.filter(certain)) {
    for (const byte of instant.bytes) {
      const here = holds.filter(
        (hold) =>
          certain(hold) &&
          hold.key === instant.key &&
          !hold.exclusive &&
          hold.bytes.has(byte) &&
          (hold.from ?? Infinity) <= (instant.from ?? 0) &&
          hold.to > (instant.from ?? 0),
      )
      if (here.some(({ limit }) => here.length > limit)) found.add('overlap')
    }
  }
  return found
}

function holdsOf(events: readonly HistoryEvent[]): Hold[] {
  const holds = new Map<string, Hold>()
  for (const event of events) {
    if (event.type === 'acquire') {
      const { range } = event
      holds.set(event.attempt, {
        key: event.key,
        client: event.client,
        exclusive: event.mode === 'exclusive',
        limit: event.limit ?? Infinity,
        limited: event.limit !== undefined,
        bytes: new Set(allBytes.filter((byte) => range === undefined || (range.start <= byte && byte < range.end))),
        jumps: event.jumps ?? false,
        priority: event.priority ?? 0,
        invoked: event.at,
        fence: 0,
        to: Infinity,
        deadline: Infinity,
        disturbed: false,
        over: false,
      })
      continue
    }
    if (event.type === 'crash' || event.type === 'pause') {
      for (const hold of holds.values()) {
        if (hold.client !== event.client || hold.over) continue
        hold.disturbed = true
        if (event.type === 'crash') end(hold, event.at)
      }
      continue
    }
    const hold = holds.get(event.attempt)
    if (hold === undefined) continue
    if (event.type === 'queued') hold.queued = event.at
    if (event.type === 'granted') {
      hold.from = event.at
      hold.fence = event.fence
      hold.deadline = event.deadline ?? Infinity
    }
    if (event.type === 'renewed' && event.at < hold.deadline) hold.deadline = event.deadline
    if (event.type === 'release' || event.type === 'lost') end(hold, event.at)
    if (event.type === 'refused') hold.over = true
  }
  for (const hold of holds.values()) {
    const last = events.findLast((event) => 'attempt' in event && holds.get(event.attempt)?.client === hold.client)
    if (!hold.over) hold.to = last?.at ?? 0
    hold.to = Math.min(hold.to, hold.deadline)
  }
  return [...holds.values()]
}

function end(hold: Hold, at: number): void {
  hold.over = true
  hold.to = Math.min(hold.to, at)
}

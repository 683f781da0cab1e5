import { seededRandom } from '../../src/testing/random.ts'

/** Where a fault strikes. Faults of one lane come one after another, those of different lanes at the same time. */
export type Lane = 'clients' | 'network' | 'store'

export const lanes: readonly Lane[] = ['clients', 'network', 'store']

/** Which kinds of faults a lane can have. */
export type Abilities = Readonly<Record<Lane, readonly string[]>>

export interface PlannedFault {
  /** Since the beginning of the round. */
  readonly atMs: number
  readonly lane: Lane
  readonly kind: string
  readonly forMs: number
  /** Says which client, connection or server: a whole number that the executor takes modulo how many there are. */
  readonly choice: number
}

/** How long faults last, by lane: shorter than a lease, or longer. */
const lastingMs: Readonly<Record<Lane, readonly [number, number]>> = {
  clients: [300, 2600],
  network: [50, 1200],
  store: [50, 1500],
}

/** Between two faults of a lane. A store that is down most of the time shows little. */
const gapMs: Readonly<Record<Lane, readonly [number, number]>> = {
  clients: [300, 1200],
  network: [200, 1000],
  store: [800, 2500],
}

/**
 * The faults of a round: the same ones for the same seed and abilities. Each lane goes through all its kinds in a random
 * order before it repeats any, so that short runs have seen every kind, too.
 */
export function planRound(seed: number, round: number, abilities: Abilities, roundMs: number): PlannedFault[] {
  const faults: PlannedFault[] = []
  for (const [number, lane] of lanes.entries()) {
    const kinds = abilities[lane]
    if (kinds.length === 0) continue
    const random = seededRandom(seed * 1_000_003 + round * 101 + number)
    const between = ([least, most]: readonly [number, number]): number =>
      Math.floor(least + random() * (most - least + 1))
    let deck = shuffled(kinds, random)
    for (let atMs = between(gapMs[lane]); atMs < roundMs;) {
      if (deck.length === 0) deck = shuffled(kinds, random)
      const kind = deck.pop() ?? ''
      const forMs = between(lastingMs[lane])
      faults.push({ atMs, lane, kind, forMs, choice: between([0, 2 ** 30]) })
      atMs += forMs + between(gapMs[lane])
    }
  }
  return faults.toSorted((first, second) => first.atMs - second.atMs)
}

/** A fault in a line, as the plan is printed. */
export function faultLine({ atMs, lane, kind, forMs, choice }: PlannedFault): string {
  return `${String(atMs).padStart(6)} ms  ${lane.padEnd(8)} ${kind}, for ${forMs} ms (${choice % 1000})`
}

function shuffled(kinds: readonly string[], random: () => number): string[] {
  const deck = [...kinds]
  for (let last = deck.length - 1; last > 0; last -= 1) {
    const place = Math.floor(random() * (last + 1))
    const card = deck[last] ?? ''
    deck[last] = deck[place] ?? ''
    deck[place] = card
  }
  return deck
}

/** The constants for which the modules of `spec/` are checked. */
import type { Check } from './checker.ts'

/** What a claim asks for, in ticks. A limit of 0 is none. */
export type Wish = {
  readonly mode: 'exclusive' | 'shared'
  readonly limit: number
  readonly ttl: number
  readonly grace: number
  readonly priority: number
  readonly wait: boolean
}

const writer: Wish = { mode: 'exclusive', limit: 0, ttl: 2, grace: 0, priority: 0, wait: true }
const reader: Wish = { ...writer, mode: 'shared' }
const permit: Wish = { ...reader, limit: 2 }

/** Claims that have something to do with each other. */
export const crowds = {
  'three writers': [writer, writer, writer],
  'a writer, a reader, and an urgent writer': [writer, reader, { ...writer, priority: 1 }],
  'two readers and a writer with a grace': [reader, reader, { ...writer, grace: 1 }],
  'three permits of two': [permit, permit, permit],
  'permits, and a reader that shares without a limit': [permit, { ...permit, wait: false }, reader],
  'a writer that does not wait, an urgent permit and a reader': [
    { ...writer, wait: false },
    { ...permit, priority: 1 },
    reader,
  ],
} satisfies Record<string, readonly Wish[]>

export type CrowdName = keyof typeof crowds

const ruleInvariants = [
  'Exclusion',
  'FencesGrow',
  'NobodyBarges',
  'HandedOver',
  'WaitingHeldAbsent',
  'NothingTakesAHeldClaim',
  'StoreTime',
  'QueueIsWaiting',
  'RepeatableCalls',
]

/** The rule, for claims that ask for this, which begin so often all together. */
export function ruleCheck(wishes: readonly Wish[], beginMax: number): Check {
  const named = Object.fromEntries(wishes.map((wish, index) => [`c${index}`, { ...wish }]))
  const constants = { Claims: new Set(Object.keys(named)), Wishes: named, BeginMax: beginMax }
  return { module: 'Rule', constants, invariants: ruleInvariants }
}

/** Two claims; their owners make so many calls each. */
export function clientCheck(callsMax: number, ttl = 3): Check {
  const constants = { Claims: new Set(['a', 'b']), Ttl: ttl, Margin: 1, CallsMax: callsMax }
  const promises = ['HolderStopsFirst', 'OneBeliever', 'LateClaimReachesNoCaller', 'LateClaimLivesOneTtl']
  return { module: 'Client', constants, invariants: ['Exclusion', ...promises] }
}

/** Three nodes, of which so many restart, and two claims. The nodes have counted fences up to these before. */
export function quorumCheck(
  restartsMax: number,
  ttl = 2,
  counters: readonly (readonly number[])[] = [[0, 0, 0]],
): Check {
  const nodes = { Nodes: new Set([1, 2, 3]), Counters: new Set(counters) }
  const times = { Ttl: ttl, Margin: 0, VotesAfter: ttl }
  const constants = { ...nodes, ...times, Claims: new Set(['a', 'b']), RestartsMax: restartsMax }
  return { module: 'Quorum', constants, invariants: ['Exclusion', 'FencesGrow', 'NoFenceTwice'] }
}

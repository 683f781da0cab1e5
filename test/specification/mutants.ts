/** Faults planted in the text of the specification. Its invariants find every one. */
import { clientCheck, crowds, quorumCheck, ruleCheck, type CrowdName } from './scenes.ts'
import type { Check } from './checker.ts'

export interface Mutant {
  readonly fault: string
  readonly from: string
  readonly to: string
  readonly check: Check
  /** The promises of which one is broken first. */
  readonly breaks: readonly string[]
}

const ruleFor = (crowd: CrowdName): Check => ruleCheck(crowds[crowd], 3)
const writers = ruleFor('three writers')
const urgent = ruleFor('a writer, a reader, and an urgent writer')
const readers = ruleFor('two readers and a writer with a grace')
const permits = ruleFor('three permits of two')
const client = clientCheck(2, 2)
const quorum = quorumCheck(1, 1)
/** One node has counted further than the others. */
const uneven = quorumCheck(0, 1, [[1, 0, 0]])

export const mutants: readonly Mutant[] = [
  {
    fault: 'one permit too many',
    from: 'Cardinality(held) >= Limit(c)',
    to: 'Cardinality(held) > Limit(c)',
    check: permits,
    breaks: ['Exclusion'],
  },
  {
    fault: 'readers pass a writer that waits',
    from: '\\E b \\in blocked : HoldsUp(b, c)',
    to: 'FALSE',
    check: readers,
    breaks: ['NobodyBarges'],
  },
  {
    fault: 'arrival counts, priority does not',
    from: 'LET priority == Wishes[c].priority',
    to: 'LET priority == 0 - 1000',
    check: urgent,
    breaks: ['NobodyBarges'],
  },
  {
    fault: 'a release hands the lock to nobody',
    from: 'Released(k, c) == Promote(End(k, c))',
    to: 'Released(k, c) == End(k, c)',
    check: writers,
    breaks: ['HandedOver'],
  },
  {
    fault: 'two grants get one fence',
    from: '!.last = @ + 1, ',
    to: '',
    check: writers,
    breaks: ['FencesGrow'],
  },
  {
    fault: 'a renewal revives a lease in its grace',
    from: 'ELSE IF InForce(k, c) THEN',
    to: 'ELSE IF k.state[c] = "held" THEN',
    check: readers,
    breaks: ['WaitingHeldAbsent'],
  },
  {
    fault: 'no grace',
    from: 'k.left[c] <= -Wishes[c].grace',
    to: 'k.left[c] <= 0',
    check: readers,
    breaks: ['NothingTakesAHeldClaim'],
  },
  {
    fault: 'an expired waiter is granted',
    from: 'k.state[c] = "waiting" /\\ k.left[c] <= 0',
    to: 'FALSE',
    check: writers,
    breaks: ['StoreTime'],
  },
  {
    fault: 'a claim that is sent again queues again',
    from: 'AskAgain(k, c) == Promote(k)',
    to: 'AskAgain(k, c) == Begin(k, c)',
    check: writers,
    breaks: ['WaitingHeldAbsent', 'QueueIsWaiting', 'RepeatableCalls', 'StoreTime'],
  },
  {
    fault: 'the lease is counted from the reply',
    from: ' - calls[c][reply[c].call]',
    to: '',
    check: client,
    breaks: ['HolderStopsFirst'],
  },
  {
    fault: 'no margin for a slow clock',
    from: '[reply[c].call] - Margin',
    to: '[reply[c].call]',
    check: client,
    breaks: ['HolderStopsFirst'],
  },
  {
    fault: 'a reply reaches a caller that has given up',
    from: 'reply[c].call > 0 /\\ phase[c] \\in {"asking", "held"}',
    to: 'reply[c].call > 0',
    check: client,
    breaks: ['HolderStopsFirst'],
  },
  {
    fault: 'a late renewal revives a claim',
    from: 'Answers(c, call, "absent", 0)',
    to: 'Answers(c, call, "held", Ttl)',
    check: client,
    breaks: ['Exclusion'],
  },
  {
    fault: 'one vote is enough',
    from: '2 * Cardinality(set) > Cardinality(Nodes)',
    to: 'Cardinality(set) > 0',
    check: quorum,
    breaks: ['Exclusion', 'NoFenceTwice', 'FencesGrow'],
  },
  {
    fault: 'the highest fence is not written back',
    from: 'IsMajority({n \\in Nodes : got[c][n] = top})',
    to: 'IsMajority({n \\in Nodes : got[c][n] > 0})',
    check: uneven,
    breaks: ['FencesGrow', 'NoFenceTwice'],
  },
  {
    fault: 'a restarted node votes at once',
    from: '![n] = VotesAfter',
    to: '![n] = 0',
    check: quorum,
    breaks: ['Exclusion'],
  },
  {
    fault: 'a restarted node counts fences from one',
    from: '![n] = highest',
    to: '![n] = 0',
    check: quorum,
    breaks: ['FencesGrow', 'NoFenceTwice'],
  },
]

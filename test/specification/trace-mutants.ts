/** A trace that is allowed, and what a broken store would have answered in it. */
import type { Wish } from './scenes.ts'
import type { Trace, TraceStep } from './traces.ts'

const writer: Wish = { mode: 'exclusive', limit: 0, ttl: 3, grace: 1, priority: 0, wait: true }
const wishes = { a: writer, b: writer, c: writer }

const held = (op: TraceStep['op'], claim: string, fence: number, left = 3): TraceStep => {
  return { op, claim, ticks: 3, state: 'held', left, fence }
}
const waits = (op: TraceStep['op'], claim: string, left = 3): TraceStep => {
  return { op, claim, ticks: 3, state: 'waiting', left, fence: 0 }
}
const absent = (op: TraceStep['op'], claim: string): TraceStep => {
  return { op, claim, ticks: 3, state: 'absent', left: 0, fence: 0 }
}
const tick = (ticks: number): TraceStep => ({ op: 'tick', claim: 'a', ticks, state: 'absent', left: 0, fence: 0 })

/** One writer after another: the second waits for the first, and is granted when the first lets go. */
export const honest: Trace = {
  wishes,
  steps: [
    held('claim', 'a', 5),
    waits('claim', 'b'),
    waits('claim', 'c'),
    tick(1),
    held('renew', 'a', 5),
    waits('renew', 'b'),
    waits('renew', 'c'),
    absent('release', 'a'),
    held('renew', 'b', 9),
    tick(2),
    waits('renew', 'c'),
    tick(1),
    absent('renew', 'b'),
    waits('renew', 'c'),
    tick(1),
    held('renew', 'c', 12),
  ],
}

/** What is answered instead at one step, from 1 on; the specification refuses the trace there. */
export const dishonest: Readonly<Record<string, readonly [step: number, answer: TraceStep]>> = {
  'a second holder of an exclusive lock': [2, held('claim', 'b', 6)],
  'a grant that passes the first waiter': [9, held('renew', 'c', 9)],
  'a lock that is free and granted to nobody': [9, waits('renew', 'b')],
  'a fence that two grants share': [9, held('renew', 'b', 5)],
  'a fence that falls': [9, held('renew', 'b', 4)],
  'a holder that lost its place': [5, absent('renew', 'a')],
  'a lease that is renewed after its end': [13, held('renew', 'b', 9)],
  'a grant during the grace of the last holder': [14, held('renew', 'c', 12)],
  'a claim that was revived after its release': [8, held('release', 'a', 5)],
  'a lease longer than was asked for': [16, held('renew', 'c', 12, 4)],
}

/** The honest trace up to this step, which is answered in another way. */
export function dishonestTrace(step: number, answer: TraceStep): Trace {
  return { wishes, steps: [...honest.steps.slice(0, step - 1), answer] }
}

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { CommentRecord } from '../../src/drivers/github/protocol/claim-comment.ts'
import { claimCommentText, claimIn } from '../../src/drivers/github/protocol/claim-comment.ts'
import type { Comment } from '../../src/drivers/github/protocol/comment-text.ts'
import { listedClaims } from '../../src/drivers/github/protocol/listing.ts'
import { conflicts } from '../../src/drivers/github/protocol/precedence.ts'
import { readThread } from '../../src/drivers/github/protocol/thread.ts'
import { turnIn, turnText } from '../../src/drivers/github/protocol/turn-comment.ts'
import { holdersOf, verdictOn, type KnownClaim } from '../../src/drivers/github/protocol/verdict.ts'
import { claim, comment, key, read, record, seconds, takeover } from './github/comments.ts'

const settleMs = 5000
const held = { heldSince: seconds(0) }
const shared = { mode: 'shared' } as const
const high = { priority: 10 }

function turn(id: number, claimed: number, left = claimed): Comment {
  return comment(id, turnText({ key, claim: claimed, left, worker: 'x' }))
}

function stateOf(comments: readonly Comment[], own: number | KnownClaim, at = seconds(10)): string {
  const known = typeof own === 'number' ? { comment: own, updatedAt: 0 } : own
  return verdictOn(read(comments, at), known, settleMs).state
}

describe('a claim that is shared', () => {
  test('is held beside others, and waits for exclusive claims before it', () => {
    const comments = [claim(3, { ...shared, ...held }), claim(4, shared), claim(5), claim(6, shared)]
    expect([4, 5, 6].map((id) => stateOf(comments, id))).toEqual(['first', 'behind', 'behind'])
    expect(stateOf(comments.slice(0, 3), 5)).toBe('behind')
  })

  test('is not over because a later shared claim has been held, but because a later exclusive one has', () => {
    const endOf = (more: Partial<CommentRecord>) =>
      readThread([claim(3, { ...shared, ...held }), claim(5, { ...held, ...more })], key, 1).claims[0]?.end
    expect(endOf(shared)).toBeUndefined()
    expect(endOf({})).toMatchObject({ how: 'superseded' })
  })

  test('lists all its holders, and then the waiters in the order in which they go first', () => {
    const comments = [
      claim(3, { ...shared, ...held }),
      claim(4, { ...shared, ...held }),
      claim(5),
      claim(6, high),
      claim(7, { replaces: { claim: 'claim-4', place: 4 } }),
    ]
    const listed = listedClaims(readThread(comments, key, 1))
    expect(listed.map(({ id, state, mode, priority }) => [id, state, mode, priority])).toEqual([
      ['claim-3', 'held', 'shared', 0],
      ['claim-4', 'held', 'shared', 0],
      ['claim-7', 'waiting', 'exclusive', 0],
      ['claim-6', 'waiting', 'exclusive', 10],
      ['claim-5', 'waiting', 'exclusive', 0],
    ])
    expect(listed.map(({ fence }) => fence)).toEqual([3, 4, 0, 0, 0])
  })
})

describe('a claim of higher priority', () => {
  const queue = [claim(3, held), claim(4), claim(5, high)]

  test('waits until the owners of those before it have given up their places', () => {
    expect(stateOf(queue, 4), 'which their owners do when they see it').toBe('overtaken')
    expect(stateOf(queue, 5)).toBe('behind')
    const released = claim(3, { ...held, completion: { result: 'done', durationMs: 1, at: seconds(1) } })
    expect(stateOf([released, claim(4), claim(5, high)], 5), 'not before').toBe('behind')
    expect(stateOf([released, claim(4, { left: 4 }), claim(5, high)], 5)).toBe('first')
  })

  test('is followed by those that stepped back, by rank and arrival, with higher fences', () => {
    const stepped = [claim(3, held), claim(4, { left: 4 }), claim(5, { left: 5 }), claim(6, high)]
    const out = (own: number, comments: readonly Comment[]) =>
      verdictOn(read(comments, seconds(10)), { comment: own, updatedAt: 0, place: 'none' }, settleMs)
    expect(out(4, stepped)).toMatchObject({ state: 'out of line', mayEnter: true })
    expect(out(5, stepped), 'the claim before it enters first').toMatchObject({ mayEnter: false, ahead: 2 })
    const entered = [...stepped, turn(7, 4)]
    expect(out(5, entered)).toMatchObject({ mayEnter: true })
    const places = readThread([...entered, turn(8, 5)], key, 1).claims.map(({ place }) => place)
    expect(places).toEqual([3, 7, 8, 6])
  })

  test('overtakes no holder, no forced claim, and no claim of a version that knows no priorities', () => {
    expect(stateOf(queue, { comment: 3, updatedAt: 0, held: true })).toBe('first')
    expect(stateOf(queue, { comment: 4, updatedAt: 0, forces: true })).toBe('behind')
    const old = comment(4, claimCommentText(record('claim-4')).replace('"version": 2', '"version": 1'))
    expect(claimIn(old.body)).toMatchObject({ mode: 'exclusive', priority: 0, old: true })
    const released = claim(3, { ...held, completion: { result: 'done', durationMs: 1, at: seconds(1) } })
    expect(stateOf([released, old, claim(5, high)], 5)).toBe('behind')
  })

  test('is let past only while its own lease lasts', () => {
    const dead = [claim(3, held, seconds(80)), claim(4, {}, seconds(80)), claim(5, high)]
    expect(stateOf(dead, 4, seconds(90))).toBe('behind')
  })
})

describe('the place of a claim', () => {
  const placeOf = (...comments: readonly Comment[]) => readThread(comments, key, 1).claims[0]?.place

  test('is its comment, until it has given that up, and then its next turn', () => {
    expect(placeOf(claim(3))).toBe(3)
    expect(placeOf(claim(3), turn(9, 3)), 'the turn itself says what was given up').toBe(9)
    expect(placeOf(claim(3, { left: 3 }))).toBeUndefined()
    expect(placeOf(claim(3, { left: 9 }), turn(9, 3), turn(12, 3, 9))).toBe(12)
  })

  test('does not move back if an old edit arrives late, nor on if a turn is sent twice', () => {
    expect(placeOf(claim(3, {}), turn(9, 3)), 'the edit of before the step back').toBe(9)
    expect(placeOf(claim(3, { left: 3, turn: 9 }), turn(9, 3), turn(11, 3))).toBe(9)
  })

  test('is known from its own comment once the turn is too old to be read', () => {
    expect(placeOf(claim(3, { left: 3, turn: 9 }))).toBe(9)
  })

  test('is not moved by a turn that somebody else wrote, or for another key, or a broken one', () => {
    const forged = { ...turn(9, 3), author: 'a stranger' }
    expect(placeOf(claim(3), forged)).toBe(3)
    expect(placeOf(claim(3), comment(9, turnText({ key: 'other', claim: 3, left: 3, worker: 'x' })))).toBe(3)
    expect(placeOf(claim(3), comment(9, turn(9, 3).body.replace('"left": 3', '"left": "3"')))).toBe(3)
    expect(turnIn(turn(9, 3).body)).toEqual({ key, claim: 3, left: 3, worker: 'x' })
  })

  test('counts for its owner only if the reading shows it, and one that the owner lost is found again', () => {
    const known = { comment: 3, updatedAt: 0, place: 9 }
    expect(stateOf([claim(3, { left: 3 }), turn(9, 3)], known)).toBe('first')
    expect(stateOf([claim(3, { left: 3 })], known), 'somebody deleted the turn').toBe('moved')
    const lost = { comment: 3, updatedAt: 0, place: 'none' } as const
    const verdict = verdictOn(read([claim(3, { left: 3 }), turn(9, 3)], seconds(1)), lost, settleMs)
    expect(verdict).toMatchObject({ state: 'out of line', shown: { place: 9 } })
  })

  test('is given up once a claim with a higher fence may have held, and not if its owner says it never did', () => {
    const upgraded = (more: Partial<CommentRecord>) => [
      claim(3, { ...shared, ...held, completion: { result: 'converted', durationMs: 1, at: seconds(1) } }),
      claim(4),
      claim(5, { replaces: { claim: 'claim-3', place: 3 }, ...more }),
    ]
    const completion = { result: 'released', durationMs: 1, at: seconds(2) }
    expect(stateOf(upgraded({ ...held, completion }), 4)).toBe('overtaken')
    expect(stateOf(upgraded({ completion }), 4)).toBe('first')
    expect(stateOf([...upgraded({}), takeover(6, 5, {}, seconds(3))], 4)).toBe('overtaken')
  })
})

describe('a conversion', () => {
  const reader = (id: number) => claim(id, { ...shared, ...held })
  const upgrade = (id: number, of: number) => claim(id, { replaces: { claim: `claim-${of}`, place: of } })

  test('goes ahead of waiters that its own lease keeps out, and waits for the other holders', () => {
    expect(stateOf([reader(3), claim(4), upgrade(5, 3)], 5)).toBe('first')
    expect(stateOf([reader(3), claim(4), upgrade(5, 3)], 4)).toBe('overtaken')
    expect(stateOf([reader(3), reader(4), upgrade(5, 3)], 5)).toBe('behind')
    expect(stateOf([reader(2), reader(3), upgrade(5, 3)], 5)).toBe('behind')
  })

  test('waits for a reader that its lease does not keep out, until that one has stepped back', () => {
    expect(stateOf([reader(3), claim(4, shared), upgrade(5, 3)], 5)).toBe('behind')
    expect(stateOf([reader(3), claim(4, { ...shared, left: 4 }), upgrade(5, 3)], 5)).toBe('first')
  })

  test('stands where its lease stood: nobody gets in between when that one ends', () => {
    const done = { result: 'converted', durationMs: 1, at: seconds(1) }
    const comments = [claim(3, { ...shared, ...held, completion: done }), claim(4), upgrade(5, 3)]
    expect(holdersOf(readThread(comments, key, 1)).map((one) => one.comment)).toEqual([5])
    expect(stateOf(comments, 4)).toBe('overtaken')
    expect(stateOf(comments, { comment: 4, updatedAt: 0, forces: true })).not.toBe('first')
  })

  test('of the second of two readers is a deadlock', () => {
    const comments = [reader(3), reader(4), upgrade(5, 3), upgrade(6, 4)]
    expect([5, 6].map((id) => stateOf(comments, id))).toEqual(['behind', 'deadlock'])
  })

  test('to shared is granted beside nobody at once, ends the exclusive claim, and lets readers in', () => {
    const comments = [
      claim(3, held),
      claim(4, shared),
      claim(5),
      claim(6, { ...shared, replaces: { claim: 'claim-3', place: 3 } }),
    ]
    expect(stateOf(comments, 6)).toBe('first')
    expect(
      readThread(
        [...comments.slice(0, 3), claim(6, { ...shared, ...held, replaces: { claim: 'claim-3', place: 3 } })],
        key,
        1,
      ).claims[0]?.end,
    ).toMatchObject({ how: 'superseded' })
  })

  test('is over when its lease has ended in another way', () => {
    expect(stateOf([reader(3), takeover(4, 3), upgrade(5, 3)], 5)).toBe('expired')
    expect(stateOf([upgrade(5, 3)], 5), 'its comment was deleted').toBe('ended')
  })
})

const place = fc.integer({ min: 1, max: 40 })
const shape = fc.record({
  mode: fc.constantFrom('exclusive' as const, 'shared' as const, 'shared' as const),
  priority: fc.constantFrom(0, 0, 10, -10),
  held: fc.boolean(),
  stepsBack: fc.constantFrom('no', 'no', 'out', 'again'),
  replaces: fc.option(fc.nat(9), { nil: undefined, freq: 3 }),
  end: fc.constantFrom('open', 'open', 'open', 'completed', 'taken over', 'displaced', 'deleted'),
  updatedAt: fc.integer({ min: 0, max: 90 }),
})

test('two claims that exclude each other are never both granted by a reading, whatever was written, edited or deleted', () => {
  const property = fc.property(
    fc.array(shape, { minLength: 2, maxLength: 8 }),
    fc.uniqueArray(place, { minLength: 20, maxLength: 20 }),
    fc.integer({ min: 0, max: 120 }),
    fc.infiniteStream(fc.nat()),
    (shapes, ids, now, order) => {
      const free = [...ids]
      const claims = shapes
        .map((given) => ({ ...given, id: free.shift() ?? 0 }))
        .toSorted((first, second) => first.id - second.id)
      const comments = claims.flatMap((given, index) => {
        const target = given.replaces === undefined ? undefined : claims[given.replaces]
        const replaced = target === undefined || target.id >= given.id || index === 0 ? undefined : target
        const later = free.filter((id) => id > given.id)
        const next = later[0]
        if (next !== undefined) free.splice(free.indexOf(next), 1)
        const again = given.stepsBack === 'again' && next !== undefined
        const body: Partial<CommentRecord> = {
          mode: given.mode,
          priority: given.priority,
          ...(replaced !== undefined && { replaces: { claim: `claim-${replaced.id}`, place: replaced.id } }),
          ...(given.held && given.stepsBack !== 'out' && held),
          ...(given.stepsBack !== 'no' && { left: given.id }),
          ...(given.end === 'completed' && { completion: { result: 'released', durationMs: 1, at: seconds(1) } }),
        }
        return [
          ...(given.end === 'deleted' ? [] : [claim(given.id, body, seconds(given.updatedAt))]),
          ...(again ? [turn(next, given.id)] : []),
          ...(given.end === 'taken over' ? [takeover(100 + index, given.id, {}, seconds(1))] : []),
          ...(given.end === 'displaced'
            ? [takeover(100 + index, given.id, { cause: 'forced', ends: [], displaces: [given.id] }, seconds(1))]
            : []),
        ]
      })
      const shuffled = comments.toSorted(() => (order.next().value % 2 === 0 ? 1 : -1))
      const reading = read(shuffled, seconds(now), { begunDateMs: seconds(now) })
      // Who neither knew nor knows more than the reading shows: a claim that is granted must be alone with those it shares with.
      const granted = reading.thread.claims.filter(
        (each) => verdictOn(reading, { comment: each.comment, updatedAt: 0 }, settleMs).state === 'first',
      )
      for (const [index, first] of granted.entries()) {
        for (const second of granted.slice(index + 1)) {
          expect(conflicts(first, second), `${first.comment} and ${second.comment} are both granted`).toBe(false)
        }
      }
    },
  )
  fc.assert(property, { seed: 1, numRuns: 4000 })
})

import { describe, expect, test } from 'vitest'
import type { Comment } from '../../src/drivers/github/protocol/comment-text.ts'
import { takeoverIn } from '../../src/drivers/github/protocol/takeover-comment.ts'
import { readThread } from '../../src/drivers/github/protocol/thread.ts'
import { turnText } from '../../src/drivers/github/protocol/turn-comment.ts'
import { verdictOn, type KnownClaim, type QueueVerdict } from '../../src/drivers/github/protocol/verdict.ts'
import { claim, comment, key, read, seconds, takeover } from './github/comments.ts'

const settleMs = 5000
const held = { heldSince: seconds(0) }
const shared = { mode: 'shared' } as const

function turn(id: number, claimed: number, left = claimed): Comment {
  return comment(id, turnText({ key, claim: claimed, left, worker: 'x' }))
}

/** A forced takeover that takes the places of these waiters. */
function displacement(id: number, ...claims: readonly number[]): Comment {
  return takeover(id, 1, { cause: 'forced', reason: 'forced', ends: [], displaces: claims })
}

function verdict(comments: readonly Comment[], own: number | KnownClaim, at = seconds(10)): QueueVerdict {
  const known = typeof own === 'number' ? { comment: own, updatedAt: 0 } : own
  return verdictOn(read(comments, at), known, settleMs)
}

describe('a waiter whose place a forced claim took', () => {
  test('names itself in a field that version 1 does not read: for that version the claim stays in the way', () => {
    const { ends, displaces } = takeoverIn(displacement(6, 3, 4).body) ?? {}
    expect({ ends, displaces }).toEqual({ ends: [], displaces: [3, 4] })
  })

  test('keeps the lease that it gets by its next turn', () => {
    const comments = [claim(3, { ...held, left: 3, turn: 7 }), claim(5), displacement(6, 3), turn(7, 3)]
    const own = { comment: 3, updatedAt: 0, place: 7, held: true } as const
    expect(verdict(comments, own).state).toBe('first')
    expect(verdict(comments, { ...own, place: 3 }).state, 'a grant by the place that was taken').toBe('ended')
  })

  test('ends by a later takeover like any other claim', () => {
    const comments = [claim(3, { left: 3 }), displacement(6, 3), turn(7, 3), takeover(8, 3)]
    expect(readThread(comments, key, 1).claims[0]?.end).toMatchObject({ how: 'taken over', cause: 'expired' })
  })

  test('loses its next place as well to the next forced claim', () => {
    const comments = [claim(3, { left: 3 }), displacement(6, 3), turn(7, 3), claim(8), displacement(9, 3)]
    const { claims } = readThread(comments, key, 1)
    expect(claims[0]).toMatchObject({ place: undefined, end: undefined })
    expect(verdict(comments, { comment: 8, updatedAt: 0, forces: true }).state).toBe('first')
  })

  test('ends nobody by a grant at that place: the forced claim holds, and keeps others out', () => {
    // The reader had two readings without the forced claim: its grant and the takeover crossed.
    const reader = claim(4, { ...shared, ...held })
    const comments = [reader, claim(5, held), displacement(6, 4), claim(7, shared)]
    expect(verdict(comments, { comment: 5, updatedAt: 0, place: 5, held: true, forces: true }).state).toBe('first')
    expect(verdict(comments, 7).state).toBe('behind')
    expect(verdict(comments, { comment: 4, updatedAt: 0, place: 4, held: true }).state).toBe('ended')
  })
})

test('a grant that was written for a place that the claim has left since ends nobody', () => {
  const late = claim(3, held)
  const comments = [late, claim(5, held), turn(7, 3)]
  expect(readThread(comments, key, 1).claims.map(({ end }) => end)).toEqual([undefined, undefined])
})

test('a takeover by version 1 ends waiters, whatever their version', () => {
  const ends = [{ comment: 3, worker: 'x', held: false }]
  const comments = [claim(3), claim(5), takeover(6, 3, { cause: 'forced', reason: 'forced', ends })]
  expect(verdict(comments, 3).state).toBe('ended')
})

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { claimIn, claimCommentText } from '../../src/drivers/github/protocol/claim-comment.ts'
import { takeoverIn, takeoverText, type TakeoverRecord } from '../../src/drivers/github/protocol/takeover-comment.ts'
import { forTask, taskInfoIn } from '../../src/drivers/github/protocol/task-info.ts'
import { readThread, successionOf } from '../../src/drivers/github/protocol/thread.ts'
import {
  settlesInMs,
  verdictOn as verdictOnOwn,
  type IssueReading,
  type QueueVerdict,
} from '../../src/drivers/github/protocol/verdict.ts'
import { claim, comment, key, read, record, seconds, takeover } from './github/comments.ts'

const settleMs = 5000

describe('the text of a claim', () => {
  test('says again what was put in, whatever names are made of', () => {
    const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 100 })
    const property = fc.property(name, name, fc.integer({ min: 1, max: 3_600_000 }), (worker, result, ttlMs) => {
      const completion = { result, durationMs: 5, at: seconds(9) }
      const original = record('a', { ttlMs, runner: { worker, node: 'n' }, heldSince: seconds(3), completion })
      expect(claimIn(claimCommentText(original))).toEqual({ ...original, task: undefined })
      expect(claimIn(claimCommentText(original).replaceAll('\n', '\r\n'))).toEqual({ ...original, task: undefined })
    })
    fc.assert(property, { seed: 1, numRuns: 300 })
  })

  test('is not believed once it makes no sense', () => {
    const text = claimCommentText(record('a'))
    expect(claimIn(text)).toBeDefined()
    const broken = [
      text.replace('<!-- leasehold:claim -->', ''),
      text.replace('"version": 2', '"version": 3'),
      text.replace('"mode": "exclusive"', '"mode": "any"'),
      text.replace('"priority": 0', '"priority": 1001'),
      text.replace('"ttl_ms": 60000', '"ttl_ms": 0'),
      text.replace('"ttl_ms": 60000', '"ttl_ms": 99999999999'),
      text.replace('"ttl_ms": 60000', '"ttl_ms": "60000"'),
      text.replace('"claim": "claim-a"', '"claim": ""').replace('"claim": "a"', '"claim": ""'),
      text.replace('"renewals": 0', '"renewals": -1'),
      text.replace(/"claimed_at": "[^"]+"/, '"claimed_at": "yesterday"'),
      text.replace('"lock": {', '"lock": ['),
      text.slice(0, text.indexOf('"leasehold"')),
      'Looks good to me',
      '',
    ]
    for (const body of broken) expect(claimIn(body), body).toBeUndefined()
  })

  test('has no more of a task than a task has', () => {
    const { metadata } = forTask({ complexity: 5, task_type: 'bug-fix' })
    expect(taskInfoIn(metadata.taskInfo)).toEqual({ complexity: 5, task_type: 'bug-fix' })
    expect(taskInfoIn({ complexity: 'high', priority: 7, secret: 'x', estimated_duration: '1h' })).toEqual({
      estimated_duration: '1h',
    })
    for (const nothing of [undefined, null, [], 'text', {}]) expect(taskInfoIn(nothing)).toBeUndefined()
  })

  test('of a takeover says again whom it ends', () => {
    const ends = [{ comment: 7, worker: 'a`b', held: true }]
    const original: TakeoverRecord = { key, by: 'me', cause: 'stale', reason: 'why', at: seconds(1), ends }
    expect(takeoverIn(takeoverText(original))).toEqual({ ...original, at: 0 })
    expect(takeoverIn(takeoverText(original).replace('"stale"', '"bored"'))).toBeUndefined()
  })
})

describe('a thread', () => {
  const endOf = (comments: Parameters<typeof readThread>[0], id: number) =>
    readThread(comments, key, 300_000).claims.find((one) => one.comment === id)?.end

  test('is read in the order of its ids, however it was listed', () => {
    const { claims } = readThread([claim(9), claim(3), comment(4, 'Hello'), claim(7), claim(3)], key, 1)
    expect(claims.map((one) => one.comment)).toEqual([3, 7, 9])
  })

  test('counts a claim once, by its lowest comment', () => {
    const copy = comment(8, claimCommentText(record('claim-3')))
    const { claims, duplicates } = readThread([claim(3), claim(5), copy], key, 1)
    expect(claims.map((one) => one.comment)).toEqual([3, 5])
    expect(duplicates).toEqual([{ id: 'claim-3', comment: 8 }])
  })

  test('leaves out the claims of another key', () => {
    expect(readThread([claim(3, { key: 'other/issue:1' })], key, 1).claims).toEqual([])
  })

  test('ends what a later takeover names, and nothing that comes after it', () => {
    expect(endOf([claim(3), takeover(4, 3)], 3)).toMatchObject({ how: 'taken over', cause: 'expired', comment: 4 })
    expect(endOf([takeover(2, 3), claim(3)], 3)).toBeUndefined()
    expect(endOf([claim(3), takeover(4, 3, { key: 'other/issue:1' })], 3)).toBeUndefined()
  })

  test('ends a claim whose owner says so, and all before one that has been held', () => {
    const completion = { result: 'merged', durationMs: 1, at: seconds(1) }
    expect(endOf([claim(3, { completion })], 3)).toMatchObject({ how: 'completed', result: 'merged' })
    expect(endOf([claim(3), claim(5, { heldSince: seconds(1) })], 3)).toMatchObject({ how: 'superseded' })
    expect(endOf([claim(3), claim(5, { heldSince: seconds(1), completion })], 3)).toMatchObject({ how: 'superseded' })
  })

  test('keeps a broken claim, which belongs to every key', () => {
    const [broken] = readThread([comment(3, '<!-- leasehold:claim -->\noops')], key, 300_000).claims
    expect(broken).toMatchObject({ comment: 3, record: undefined, ttlMs: 300_000, end: undefined })
  })

  describe('a claim with a typing error in its JSON', () => {
    const completion = { result: 'merged', durationMs: 1, at: seconds(1) }
    /** As somebody leaves it who edits it on the page: GitHub then ends lines otherwise. */
    const broken = (body: string): string => body.replace('"version": 2,', '"version": 2').replaceAll('\n', '\r\n')
    const readBroken = (body: string, of = key) => {
      expect(claimIn(body)).toBeUndefined()
      return readThread([comment(3, body)], of, 3_600_000).claims[0]
    }

    test('keeps its own ttl, and its key', () => {
      const body = broken(claimCommentText(record('a', { ttlMs: 4000 })))
      expect(readBroken(body)).toMatchObject({ record: undefined, ttlMs: 4000, end: undefined })
      expect(readBroken(body, 'default/issue:2')).toBeUndefined()
    })

    test('is over if its owner had completed it', () => {
      const body = broken(claimCommentText(record('a', { ttlMs: 4000, heldSince: seconds(0), completion })))
      expect(readBroken(body)?.end).toMatchObject({ how: 'completed', result: 'merged' })
    })

    test('is not over because of anything that its runner or a person says', () => {
      const runner = { worker: '✅ done', node: 'x', more: { metadata: { completion: { result: 'x' }, ttl_ms: 1 } } }
      const body = claimCommentText(record('a', { ttlMs: 4000, runner }))
      expect(readBroken(broken(body))).toMatchObject({ ttlMs: 4000, end: undefined })
      expect(readBroken(broken(body).replace('⏳', '✅'))?.end).toBeUndefined()
    })

    test('counts for as long as any claim may if its ttl cannot be read', () => {
      for (const ttl of ['40O0', '-1', '0', '99999999', '4000 or so']) {
        const body = broken(claimCommentText(record('a', { ttlMs: 4000 }))).replace(
          '"ttl_ms": 4000',
          `"ttl_ms": ${ttl}`,
        )
        expect(readBroken(body)).toMatchObject({ ttlMs: 3_600_000, end: undefined })
      }
    })
  })

  test('tells who was there before, if that ended badly', () => {
    const held = { heldSince: seconds(1) }
    const completion = { result: 'merged', durationMs: 1, at: seconds(1) }
    const after = (...comments: Parameters<typeof readThread>[0]) => successionOf(readThread(comments, key, 1), 9)
    expect(after(claim(3, held), takeover(4, 3), claim(9))).toMatchObject({ how: 'expired', fence: 3 })
    expect(after(claim(3, held), takeover(4, 3, { cause: 'forced' }), claim(9))).toMatchObject({ how: 'evicted' })
    expect(after(claim(3, { ...held, completion }), claim(9))).toBeUndefined()
    expect(after(claim(3, held), takeover(4, 3), claim(5, { ...held, completion }), claim(9))).toBeUndefined()
  })
})

/** Of an owner that knows of no edit but those that the look shows. */
function verdictOn(from: IssueReading, place: number, settle: number): QueueVerdict {
  return verdictOnOwn(from, { comment: place, updatedAt: 0 }, settle)
}

describe('a claim', () => {
  test('is no older than its owner knows it to be, however old the look is', () => {
    const old = read([claim(3)], seconds(70))
    expect(verdictOn(old, 3, settleMs)).toMatchObject({ state: 'expired' })
    expect(verdictOnOwn(old, { comment: 3, updatedAt: seconds(65) }, settleMs)).toMatchObject({ state: 'first' })
  })

  test('that is first may hold after a settle time, counted from its first look and from its comment', () => {
    expect(verdictOn(read([claim(3)], seconds(1)), 3, settleMs)).toMatchObject({ state: 'first' })
    expect(settlesInMs(1000, 0, 1000, settleMs)).toBe(5000)
    expect(settlesInMs(1000, 2000, 6000, settleMs)).toBe(1000)
    expect(settlesInMs(1000, 0, 6000, settleMs)).toBe(0)
  })

  test('behind a live one waits, and is told when that one must be gone', () => {
    const verdict = verdictOn(read([claim(3), claim(4), claim(5)], seconds(10)), 5, settleMs)
    expect(verdict).toMatchObject({ state: 'behind', ahead: 1, unrenewed: [], againMs: 56_000 })
  })

  test('takes over only when a lease, a settle time and a second of rounding have passed', () => {
    const unrenewed = (at: number) => {
      const verdict = verdictOn(read([claim(3), claim(5, {}, seconds(60))], at), 5, settleMs)
      return verdict.state === 'behind' ? verdict.unrenewed.length : verdict.state
    }
    expect(unrenewed(seconds(65))).toBe(0)
    expect(unrenewed(seconds(66))).toBe(1)
  })

  test('leaves taking over to the first in line', () => {
    const comments = [claim(3), claim(4, {}, seconds(60)), claim(5, {}, seconds(60))]
    expect(verdictOn(read(comments, seconds(70)), 4, settleMs)).toMatchObject({ unrenewed: [{ comment: 3 }] })
    expect(verdictOn(read(comments, seconds(70)), 5, settleMs)).toMatchObject({ unrenewed: [], ahead: 0 })
  })

  test('that took over waits for a look two settle times after the takeover', () => {
    const comments = [claim(3), takeover(4, 3, {}, seconds(70)), claim(5, {}, seconds(60))]
    const at = (more: object) => verdictOn(read(comments, seconds(75), more), 5, settleMs)
    expect(at({ begunAt: 9999, seenAt: new Map([[4, 0]]), begunDateMs: 0 })).toMatchObject({ cleanup: true })
    expect(at({ begunAt: 10_000, seenAt: new Map([[4, 0]]), begunDateMs: 0 })).toMatchObject({ state: 'first' })
    expect(at({ begunDateMs: seconds(80) })).toMatchObject({ cleanup: true })
    expect(at({ begunDateMs: seconds(81) })).toMatchObject({ state: 'first' })
  })

  test('waits out the lease of an edit that crossed the takeover, and of no later one', () => {
    const timedOut = { begunDateMs: seconds(1000) }
    const behind = (updatedAt: number, at: number) => {
      const comments = [claim(3, {}, updatedAt), takeover(4, 3, {}, seconds(70)), claim(5, {}, seconds(100))]
      return verdictOn(read(comments, at, timedOut), 5, settleMs).state
    }
    expect(behind(seconds(72), seconds(132))).toBe('behind')
    expect(behind(seconds(72), seconds(133))).toBe('first')
    // An edit long after it has told nobody that it holds.
    expect(behind(seconds(120), seconds(135))).toBe('behind')
    expect(behind(seconds(120), seconds(136))).toBe('first')
  })

  test('does not wait for those that were turned out on purpose', () => {
    const comments = [claim(3), takeover(4, 3, { cause: 'forced' }), claim(5)]
    expect(verdictOn(read(comments, seconds(1), { begunDateMs: 0 }), 5, settleMs).state).toBe('first')
  })

  test('that is too old is over, and one that is not shown is missing', () => {
    expect(verdictOn(read([claim(3)], seconds(60)), 3, settleMs).state).toBe('first')
    expect(verdictOn(read([claim(3)], seconds(61)), 3, settleMs).state).toBe('expired')
    expect(verdictOn(read([claim(3), takeover(4, 3)], seconds(9)), 3, settleMs).state).toBe('ended')
    expect(verdictOn(read([], seconds(9)), 3, settleMs).state).toBe('missing')
  })
})

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Request } from '../../src/core/contract/driver.ts'
import { complaints } from './admission/oracle.ts'
import { claimOf, Play } from './admission/play.ts'
import { eventScripts, firstComplaint, notify } from './admission/scripts.ts'
import { rounds } from '../support/extent.ts'

const shared = { mode: 'shared' } as const

describe('conversions', () => {
  test("two that want each other's place do not wait for each other", () => {
    const play = new Play()
    play.claim('left', { ...shared, range: { start: 0, end: 1 } })
    play.claim('right', { ...shared, range: { start: 5, end: 6 } })
    expect(play.claim('left to right', { range: { start: 5, end: 6 }, replaces: 'left' }).state).toBe('waiting')
    const crossed = play.claim('right to left', { range: { start: 0, end: 1 }, replaces: 'right' })
    expect(crossed).toEqual({ state: 'absent', reason: 'deadlock' })
  })

  test('one that moves away lets in the conversion that waited for its old place', () => {
    const play = new Play()
    play.claim('far', { range: { start: 8, end: 9 } })
    play.claim('left', { range: { start: 0, end: 1 } })
    play.claim('middle', { range: { start: 4, end: 5 } })
    expect(play.claim('left to middle', { range: { start: 4, end: 5 }, replaces: 'left' }).state).toBe('waiting')
    expect(play.claim('middle to far', { range: { start: 8, end: 9 }, replaces: 'middle' }).state).toBe('waiting')
    play.release('far')
    expect(play.holding()).toEqual(['middle to far', 'left to middle'])
    expect(play.waiting()).toEqual([])
  })

  test('a refused one lets the queue move on', () => {
    const play = new Play()
    play.claim('one', { ttlMs: 10 })
    play.claim('two')
    play.now += 10
    expect(play.claim('conversion', { replaces: 'one' })).toEqual({ state: 'absent', reason: 'unknown' })
    expect(play.holding()).toEqual(['two'])
  })

  test('one whose old claim is in its grace is over', () => {
    const play = new Play()
    play.claim('reader', { ...shared, ttlMs: 10, graceMs: 50 })
    play.claim('other', shared)
    play.claim('upgrade', { replaces: 'reader' })
    play.now += 10
    expect(play.renew('upgrade')).toEqual({ state: 'absent', reason: 'expired' })
    expect(play.holding()).toEqual(['reader', 'other'])
  })

  test('an evicted holder takes its waiting upgrade with it', () => {
    const play = new Play()
    play.claim('reader', shared)
    play.claim('other', shared)
    play.claim('upgrade', { replaces: 'reader' })
    const [reader] = play.state.holders()
    play.evict(reader?.fence ?? 0)
    play.release('other')
    expect(play.claim('writer').state).toBe('held')
    expect(play.waiting()).toEqual([])
  })
})

describe('time', () => {
  test('a holder with more than its ttl left is cut to its ttl', () => {
    const play = new Play()
    play.claim('one', { ttlMs: 50 })
    play.now -= 500
    expect(play.claim('two').state).toBe('waiting')
    play.now += 50
    expect(play.renew('one')).toEqual({ state: 'absent', reason: 'expired' })
    expect(play.holding()).toEqual(['two'])
  })

  test('a dead waiter blocks for one ttl after the clock was set back, not until it has caught up', () => {
    const play = new Play()
    play.claim('reader', { ...shared, ttlMs: 5000 })
    play.claim('dead writer', { ttlMs: 50 })
    play.now -= 1000
    expect(play.claim('late reader', shared).state).toBe('waiting')
    play.now += 50
    expect(play.renew('late reader').state).toBe('held')
  })

  test('a clock set back does not stretch the longest hold', () => {
    const play = new Play()
    play.claim('one', { ttlMs: 100, maxHoldMs: 20 })
    play.now -= 500
    expect(play.renew('one', 100)).toMatchObject({ state: 'held', ttlMs: 20 })
  })

  test('a renewal at the very end is too late, and one before it in time', () => {
    const play = new Play()
    play.claim('one', { ttlMs: 50 })
    play.now += 49
    expect(play.renew('one', 50)).toMatchObject({ state: 'held', ttlMs: 50 })
    play.now += 50
    expect(play.renew('one', 50)).toEqual({ state: 'absent', reason: 'expired' })
  })

  test('a waiter promoted by its own renewal has the renewed lease', () => {
    const play = new Play()
    play.claim('one', { ttlMs: 10 })
    play.claim('two', { ttlMs: 30 })
    play.now += 10
    expect(play.renew('two', 80)).toMatchObject({ state: 'held', ttlMs: 80, after: { how: 'expired' } })
  })

  test('of several ends at once the latest grant is remembered, and none begins anew', () => {
    const play = new Play()
    play.claim('one', { ...shared, ttlMs: 10 })
    play.claim('two', { ...shared, ttlMs: 10 })
    play.now += 10
    const again: Request = { op: 'claim', claim: claimOf('one', { ...shared, ttlMs: 10 }) }
    expect(play.turn(again).decision.status).toEqual({ state: 'absent', reason: 'expired' })
    expect(play.state.ended?.id).toBe('two')
  })
})

describe('a process seen to die', () => {
  test('frees its lock at once and is named to the next', () => {
    const play = new Play()
    play.claim('one')
    play.claim('two')
    play.dead.add('one')
    expect(play.renew('two')).toMatchObject({ state: 'held', after: { how: 'died' } })
  })

  test('still blocks for its grace, counted from when the death was seen', () => {
    const play = new Play()
    play.claim('one', { ttlMs: 100, graceMs: 20 })
    play.claim('two')
    play.dead.add('one')
    expect(play.renew('two')).toMatchObject({ state: 'waiting', againMs: 20 })
    play.now += 19
    expect(play.renew('two').state).toBe('waiting')
    play.now += 1
    expect(play.renew('two')).toMatchObject({ state: 'held', after: { how: 'died' } })
  })

  test('is passed over while it waits', () => {
    const play = new Play()
    play.claim('one')
    play.claim('dead')
    play.claim('three')
    play.dead.add('dead')
    play.release('one')
    expect(play.holding()).toEqual(['three'])
  })

  test('lives if another process renews its claim', () => {
    const play = new Play()
    play.claim('one')
    play.dead.add('one')
    expect(play.renew('one')).toMatchObject({ state: 'held' })
  })
})

describe('eviction', () => {
  test("a waiting claim that takes back its runner's place gets it, whoever is ahead", () => {
    const runner = claimOf('mine').runner
    const play = new Play()
    play.claim('mine', { runner, range: { start: 0, end: 1 } })
    play.claim('theirs', { range: { start: 1, end: 2 } })
    play.claim('ahead')
    expect(play.claim('again', { runner, evict: 'same-runner' }).state).toBe('waiting')
    play.release('theirs')
    expect(play.renew('again').state).toBe('held')
    expect(play.waiting()).toEqual(['ahead'])
  })

  test('reaches a claim in its grace', () => {
    const play = new Play()
    play.claim('one', { ttlMs: 10, graceMs: 100 })
    play.now += 10
    expect(play.claim('stale', { evict: 'stale', staleMs: 5 })).toMatchObject({
      state: 'held',
      after: { how: 'evicted' },
    })
  })

  test('a claim that would not wait holds up nobody behind', () => {
    const play = new Play()
    play.claim('left', { range: { start: 0, end: 1 }, ttlMs: 10 })
    play.claim('right', { range: { start: 1, end: 2 } })
    play.claim('waiter', { range: { start: 0, end: 1 } })
    play.now += 10
    const refused = play.claim('impatient', { wait: false, priority: 5 })
    expect(refused).toEqual({ state: 'absent', reason: 'refused' })
    expect(play.holding()).toEqual(['right', 'waiter'])
  })
})

describe('fences', () => {
  test('a floor lifts also the fence of a holder that was asked to leave', () => {
    const play = new Play()
    play.claim('low')
    play.claim('high', { priority: 5, evict: 'lower-priority' })
    expect(play.renew('low', 100, 500)).toMatchObject({ state: 'held', fence: 500, leaving: 'preempted' })
    play.release('low')
    expect(play.renew('high')).toMatchObject({ state: 'held', fence: 501 })
  })
})

describe('ten thousand waiters', () => {
  const crowd = (wish: Parameters<Play['claim']>[1]) => {
    const play = new Play()
    play.claim('holder')
    for (let index = 0; index < 10_000; index += 1) play.claim(`waiter ${index}`, wish)
    return play
  }

  test.each([
    ['exclusive', {}],
    ['for a permit', { ...shared, limit: 1 }],
  ])('are not read for one release: %s', (_kind, wish) => {
    const play = crowd(wish)
    play.release('holder')
    expect(play.holding()).toEqual(['waiter 0'])
    expect(play.waitersRead).toBeLessThanOrEqual(3)
  })

  test('are not read for a renewal, a claim or a refusal', () => {
    const play = crowd({})
    play.renew('holder')
    expect(play.waitersRead).toBe(0)
    play.renew('waiter 5000')
    expect(play.waitersRead).toBe(0)
    play.claim('impatient', { wait: false })
    expect(play.waitersRead).toBe(0)
    expect(play.claim('last')).toMatchObject({ state: 'waiting', ahead: 10_000 })
  })

  test('that have died are passed over in one step', () => {
    const play = crowd({ ttlMs: 10 })
    play.claim('alive')
    play.now += 10
    play.release('holder')
    expect(play.holding()).toEqual(['alive'])
    expect(play.waiting()).toEqual([])
  })
})

describe('ten thousand holders', () => {
  const crowd = (wish: (index: number) => Parameters<Play['claim']>[1]) => {
    const play = new Play()
    for (let index = 0; index < 10_000; index += 1) play.claim(`holder ${index}`, wish(index))
    return play
  }

  test.each([
    ['readers', () => shared],
    ['of permits', () => ({ ...shared, limit: 20_000 })],
    ['of ranges', (index: number) => ({ range: { start: 10 * index, end: 10 * index + 10 } })],
  ])('are not read for a request that concerns one of them: %s', (_kind, wish) => {
    const play = crowd(wish)
    const read: number[] = []
    const count = <Answer>(answer: Answer): Answer => {
      read.push(play.holdersRead)
      return answer
    }
    expect(count(play.renew('holder 5000'))).toMatchObject({ state: 'held' })
    expect(count(play.release('holder 5000'))).toMatchObject({ reason: 'released' })
    expect(count(play.claim('newcomer', wish(5000)))).toMatchObject({ state: 'held' })
    expect(count(play.claim('impatient', { wait: false }))).toMatchObject({ reason: 'refused' })
    expect(count(play.claim('writer'))).toMatchObject({ state: 'waiting', againMs: 100 })
    expect(read).toEqual([0, 0, 0, 0, 0])
  })

  test('that have expired leave in one step', () => {
    const play = crowd(() => shared)
    play.now += 99
    play.renew('holder 1')
    play.now += 1
    expect(play.claim('reader', shared)).toMatchObject({ state: 'held' })
    expect(play.holding()).toEqual(['holder 1', 'reader'])
  })

  test('have the grace of a holder that died counted anew if the clock is set back', () => {
    const play = new Play(undefined, undefined, 0)
    play.claim('dies', { ...shared, graceMs: 5 })
    play.claim('lives', shared)
    play.dead.add('dies')
    play.now += 60
    const ask = (): unknown => play.claim('writer', { wait: false })
    ask()
    // The death is stored by now, and the index is used again.
    play.dead.clear()
    play.now -= 50
    ask()
    play.now += 5
    ask()
    expect(play.holding()).toEqual(['lives'])
  })

  test('are granted in one step when the writer leaves', () => {
    const play = new Play()
    play.claim('writer')
    for (let index = 0; index < 10_000; index += 1) play.claim(`reader ${index}`, shared)
    play.release('writer')
    expect(play.holding()).toHaveLength(10_000)
    expect(play.waitersRead).toBe(10_000)
  })
})

describe('the rule', () => {
  test('keeps every promise among dozens of ranges, readers and permits', { timeout: 120_000 }, () => {
    const limit = fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined, freq: 1 })
    const onRange = fc.record({
      mode: fc.constantFrom('exclusive' as const, 'shared' as const),
      range: fc.tuple(fc.nat(8), fc.nat(1)),
      limit,
      priority: fc.nat(2),
    })
    // A waiting writer, or permit, of the whole key ends every walk: rare, so that most walks pass dozens.
    const reader = fc.record({
      mode: fc.constant('shared' as const),
      range: fc.constant(undefined),
      limit: fc.constant(undefined),
      priority: fc.nat(2),
    })
    const anything = fc.record({
      mode: onRange.map(({ mode }) => mode),
      range: fc.constant(undefined),
      limit,
      priority: fc.nat(2),
    })
    const wish = fc.oneof(
      { weight: 60, arbitrary: onRange },
      { weight: 4, arbitrary: reader },
      { weight: 1, arbitrary: anything },
    )
    const departures = fc.array(fc.nat(79), { minLength: 40, maxLength: 80 })
    const play = (wishes: readonly Wish[], leaving: readonly number[]): string[] => {
      const key = new Play()
      const turns = [
        ...wishes.map((each, index) => ({ op: 'claim', claim: claimOf(`c${index}`, claimTerms(each)) }) as const),
        ...leaving.map((index) => ({ op: 'release', key: 'key', id: `c${index}` }) as const),
      ]
      return turns.flatMap((request) => complaints(key.turn(request)))
    }
    fc.assert(
      fc.property(fc.array(wish, { minLength: 60, maxLength: 80 }), departures, (wishes, leaving) => {
        expect(play(wishes, leaving)).toEqual([])
      }),
      {
        numRuns: Number(process.env['LEASEHOLD_RUNS'] ?? rounds(1500, 3000)) / 100,
        seed: Number(process.env['LEASEHOLD_SEED'] ?? 1),
      },
    )
  })

  test('keeps every promise, whatever it is asked', { timeout: 120_000 }, () => {
    const runs = Number(process.env['LEASEHOLD_RUNS'] ?? rounds(1500, 3000))
    const details = fc.check(
      fc.property(eventScripts(60), (events) => {
        const complaint = firstComplaint(events)
        if (complaint !== undefined) throw new Error(complaint)
      }),
      { numRuns: runs, seed: Number(process.env['LEASEHOLD_SEED'] ?? 1) },
    )
    if (!details.failed || details.counterexample === null) return
    const [events] = details.counterexample
    expect.fail(`${firstComplaint(events)}\n${notify(events)}\nseed ${details.seed}`)
  })
})

interface Wish {
  readonly mode: 'exclusive' | 'shared'
  readonly range: [number, number] | undefined
  readonly limit: number | undefined
  readonly priority: number
}

function claimTerms({ mode, range, limit, priority }: Wish): Parameters<Play['claim']>[1] {
  const [start, length] = range ?? [0, 0]
  return {
    mode,
    priority,
    ...(range !== undefined && { range: { start, end: start + length + 1 } }),
    ...(mode === 'shared' && limit !== undefined && { limit }),
  }
}

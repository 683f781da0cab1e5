import { describe, expect, test } from 'vitest'
import type { Claim, ClaimStatus, Notification } from '../../src/core/contract/driver.ts'
import {
  begin,
  step,
  wakeAt,
  type ClaimEffect,
  type ClaimEvent,
  type ClaimState,
  type RenewalPolicy,
} from '../../src/core/client/claim-step.ts'
import { claimOf } from '../support/claims.ts'

const claim = claimOf('key', { id: 'id', ttlMs: 30_000 })
const terms: RenewalPolicy = { heartbeatMs: 10_000, polling: undefined, schedule: undefined }
const held = (ttlMs = 30_000): ClaimStatus => ({ state: 'held', fence: 7, ttlMs })
const waiting = { state: 'waiting', ahead: 2, ttlMs: 30_000, againMs: 30_000 } as const satisfies ClaimStatus
const unknown: ClaimStatus = { state: 'unknown', error: new Error('no route') }

/** Plays events on one claim and gathers what it wanted done. */
class Player {
  state: ClaimState
  effects: ClaimEffect[]

  constructor(changes: { claim?: Partial<Claim>; terms?: Partial<RenewalPolicy> } = {}) {
    const [state, effects] = begin({ ...claim, ...changes.claim }, { ...terms, ...changes.terms }, 0)
    this.state = state
    this.effects = [...effects]
  }

  play(event: ClaimEvent): this {
    const [state, effects] = step(this.state, event)
    this.state = state
    this.effects = [...effects]
    return this
  }

  answer(status: ClaimStatus, sentAt: number, at = sentAt, askedMs = claim.ttlMs): this {
    return this.play({ type: 'answer', status, sentAt, askedMs, at, random: 0.5 })
  }

  received(notification: Notification, at: number): this {
    return this.play({ type: 'notified', notification, at })
  }

  tick(at: number): this {
    return this.play({ type: 'tick', at })
  }

  get done(): string[] {
    return this.effects.map((effect) => (effect.type === 'send' ? effect.request.op : effect.type))
  }
}

const holding = (at = 0) => new Player().answer(held(), 0, at)

describe('asking', () => {
  test('sends the claim, and holds when the store says so', () => {
    const player = new Player()
    expect(player.done).toEqual(['claim'])
    expect(player.answer(held(), 0, 5).done).toEqual(['granted'])
    expect(player.effects).toMatchObject([{ type: 'granted', fence: 7 }])
    expect(player.state).toMatchObject({ phase: 'held', deadline: 30_000 - 1500 - 2 })
  })

  test('keeps whole milliseconds, on the safe side of the clock', () => {
    const [{ sentAt, deadline }] = begin({ ...claim, ttlMs: 10_010 }, terms, 7.9)
    expect([sentAt, deadline]).toEqual([7, 7 + 10_010 - 503])
    const player = new Player({
      claim: { ttlMs: 10_010 },
      terms: { heartbeatMs: 3333.3, schedule: { originMs: 31, shift: 0.3 } },
    })
    const { dangerAt, nextAt } = player.answer(held(10_010), 7, 8.5).state
    expect([dangerAt, nextAt].every(Number.isInteger)).toBe(true)
  })

  test('shortens the lease by the time the answer took', () => {
    expect(new Player().answer(held(), 100, 20_000).state.deadline).toBe(100 + 28_498)
  })

  test('tells nobody of a grant that came as late as the lease is long, and gives it back', () => {
    const player = new Player().answer(held(), 0, 28_498)
    expect(player.done).toEqual(['failed', 'release'])
  })

  test('gives up, and releases, when no answer comes for as long as the lease would last', () => {
    const player = new Player()
    expect(wakeAt(player.state)).toBe(28_498)
    expect(player.tick(28_498).done).toEqual(['failed', 'release'])
    expect(player.answer(held(), 0, 29_000).done).toEqual([])
  })

  test('releases by id what may or may not have been granted', () => {
    expect(new Player().answer(unknown, 0, 5).done).toEqual(['failed', 'release'])
  })

  test('ends when refused, leaving nothing to do', () => {
    const player = new Player().answer({ state: 'absent', reason: 'refused' }, 0, 5)
    expect(player.done).toEqual(['refused'])
    expect(wakeAt(player.state)).toBe(Infinity)
  })

  test('takes a grant that is pushed before the answer arrives, and drops the older answer', () => {
    const player = new Player().received(held(29_000), 50)
    expect(player.done).toEqual(['granted'])
    expect(player.answer(waiting, 0, 60).done).toEqual(['answered-late'])
    expect(player.state.phase).toBe('held')
  })
})

describe('waiting', () => {
  const queued = () => new Player().answer(waiting, 0, 5)

  test('keeps its place by renewing, a holder by hand too', () => {
    expect(queued().done).toEqual(['queued'])
    expect(wakeAt(queued().state)).toBe(10_000)
    const byHand = new Player({ terms: { heartbeatMs: Infinity } }).answer(waiting, 0, 5)
    expect(wakeAt(byHand.state)).toBe(10_000)
    expect(byHand.tick(10_000).done).toEqual(['renew'])
  })

  test('asks again when the store says the holder must be gone', () => {
    const player = new Player().answer({ ...waiting, againMs: 700 }, 0, 5)
    expect(wakeAt(player.state)).toBe(705)
  })

  test('asks with a growing pause where the store cannot push', () => {
    const polling = { attempts: Infinity, minMs: 10, maxMs: 800, factor: 2, jitter: 0 }
    const player = new Player({ terms: { polling } }).answer(waiting, 0, 0)
    expect(wakeAt(player.state)).toBe(10)
    player.tick(10).answer(waiting, 10, 10)
    expect(wakeAt(player.state)).toBe(30)
  })

  test('counts a pushed grant from the last request that was answered, however late the news', () => {
    const player = queued().received(held(25_000), 15_000)
    expect(player.done).toEqual(['granted'])
    expect(player.state.deadline).toBe(28_498)
  })

  test('confirms a pushed grant of which little may be left before telling anybody', () => {
    const player = queued().received(held(25_000), 20_000)
    expect(player.done).toEqual(['renew'])
    expect(player.answer(held(), 20_000, 20_010).done).toEqual(['granted'])
  })

  test('counts the longest hold, too, from the last request that was answered', () => {
    const player = new Player({ claim: { maxHoldMs: 20_000 } }).answer(waiting, 0, 5).received(held(20_000), 1000)
    expect(player.done).toEqual(['granted'])
    expect(player.state.deadline).toBe(20_000 - 1000 - 2)
    const longer = new Player({ claim: { maxHoldMs: 20_000 } }).answer(waiting, 0, 5)
    longer.tick(10_000).answer(waiting, 10_000, 10_005).received(held(20_000), 11_000)
    expect(longer.state.deadline).toBe(10_000 + 20_000 - 1000 - 2)
  })

  test('is not said to have held longest for having waited long', () => {
    const player = new Player({ claim: { maxHoldMs: 35_000 } }).answer(waiting, 0, 5)
    player.tick(10_000).answer(waiting, 10_000).received(held(), 10_100)
    expect(player.done).toEqual(['granted'])
    player.tick(20_000).answer(unknown, 20_000)
    expect(player.tick(38_498).effects).toMatchObject([{ type: 'lost', reason: 'expired' }])
  })

  test('granted while a request is under way sends no other beside it, and renews once that is answered', () => {
    const player = queued().tick(10_000)
    expect(player.received(held(), 10_010).done).toEqual(['granted'])
    expect(player.tick(18_000).done, 'the next heartbeat is due').toEqual([])
    expect(player.answer(waiting, 10_000, 18_100).done).toEqual(['answered-late'])
    expect(player.tick(18_100).done).toEqual(['renew'])
  })

  test('granted unheard for long, while the claim itself is not answered yet, asks as soon as it is', () => {
    const player = new Player().received(held(5000), 20_000)
    expect(player.done).toEqual([])
    expect(player.answer(waiting, 0, 20_010).done).toEqual(['queued', 'renew'])
    expect(player.answer(held(), 20_010, 20_020).done).toEqual(['granted'])
  })

  test('tries a failed renewal again, and clears its place away when it may be gone', () => {
    const player = queued().tick(10_000).answer(unknown, 10_000, 10_001)
    expect(player.done).toEqual(['renewal-failed'])
    expect(wakeAt(player.state)).toBe(10_021)
    expect(player.tick(28_498).done).toEqual(['refused', 'release'])
  })

  test('releases its place when its owner gives up', () => {
    expect(queued().play({ type: 'release', at: 100 }).done).toEqual(['release'])
  })

  test('asks once more after an answer on its way if it is nudged meanwhile', () => {
    const player = queued().received('poll', 50)
    expect(player.done).toEqual(['renew'])
    expect(player.received('poll', 51).done).toEqual([])
    expect(player.answer(waiting, 50, 60).done).toEqual(['queued', 'renew'])
  })
})

describe('holding', () => {
  test('renews every heartbeat, or earlier by its schedule', () => {
    expect(wakeAt(holding().state)).toBe(10_000)
    const scheduled = new Player({ terms: { schedule: { originMs: 9000, shift: 0 } } })
    expect(wakeAt(scheduled.answer(held(), 0, 5).state)).toBe(9000)
    expect(holding().tick(10_000).done).toEqual(['renew'])
  })

  test('sets the end anew with each renewal, counted from its sending', () => {
    const player = holding().tick(10_000).answer(held(), 10_000, 10_050)
    expect(player.done).toEqual(['renewed'])
    expect(player.state.deadline).toBe(38_498)
  })

  test('trusts no more than a shorter ttl from the moment it is asked for, whether or not that is answered', () => {
    const shorter = holding().play({ type: 'renew', at: 1000, ttlMs: 3000 })
    expect(shorter.done).toEqual(['renew'])
    expect(shorter.state.deadline).toBe(1000 + 3000 - 152)
    expect(shorter.answer(unknown, 1000, 1500, 3000).tick(3848).done).toEqual(['lost'])
    const longer = holding().play({ type: 'renew', at: 1000, ttlMs: 60_000 })
    expect(longer.state.deadline).toBe(28_498)
  })

  test('asked for a shorter ttl while it renews trusts the longer one until the shorter is on its way', () => {
    const player = holding().tick(10_000).play({ type: 'renew', at: 10_001, ttlMs: 3000 })
    expect([player.done, player.state.deadline]).toEqual([[], 28_498])
    expect(player.answer(held(), 10_000, 10_010).done).toEqual(['renewed', 'renew'])
    expect(player.state.deadline).toBe(10_010 + 3000 - 152)
  })

  test('trusts no more than the shortest ttl whose renewal was not answered: that may arrive yet', () => {
    const player = holding().play({ type: 'renew', at: 1000, ttlMs: 3000 }).answer(unknown, 1000, 1500, 3000)
    player.play({ type: 'renew', at: 1600, ttlMs: 60_000 }).answer(held(60_000), 1600, 1610, 60_000)
    expect(player.done).toEqual(['renewed'])
    expect(player.state.deadline).toBe(1600 + 3000 - 152)
    const overtaken = holding().answer(held(), 500, 510).answer(unknown, 400, 520, 3000)
    expect(overtaken.tick(9000).answer(held(), 9000).state.deadline).toBe(9000 + 3000 - 152)
  })

  test('retries a failed renewal inside the window, warns, and is lost at the deadline and not before', () => {
    const player = holding().tick(10_000).answer(unknown, 10_000, 10_001)
    expect(player.done).toEqual(['renewal-failed'])
    expect(player.tick(10_021).done).toEqual(['renew'])
    player.answer(unknown, 10_021, 10_022)
    expect(player.tick(18_498).done).toEqual(['jeopardy', 'renew'])
    player.answer(unknown, 18_498, 18_499)
    expect(player.tick(28_497).done).not.toContain('lost')
    expect(player.tick(28_498).done).toEqual(['lost'])
  })

  test('recovers from jeopardy when a renewal goes through', () => {
    const player = holding().tick(18_498)
    expect(player.done).toEqual(['jeopardy', 'renew'])
    player.answer(held(), 18_498, 18_500)
    expect(player.state.dangerAt).toBe(18_498 + 18_498)
    expect(player.state.deadline).toBe(18_498 + 28_498)
  })

  test('is lost by the clock although a renewal is on its way', () => {
    const player = holding().tick(10_000)
    expect(wakeAt(player.state)).toBe(18_498)
    expect(player.tick(30_000).done).toEqual(['lost'])
    expect(player.answer(held(), 10_000, 30_001).done).toEqual([])
  })

  test('is lost when the answer to a renewal came as late as the lease is long, and not before', () => {
    expect(holding().tick(10_000).answer(held(1000), 10_000, 10_947).done).toEqual(['renewed'])
    expect(holding().tick(10_000).answer(held(1000), 10_000, 10_948).done).toEqual(['lost'])
  })

  test('is lost when the store says it has ended, with its reason', () => {
    const player = holding().tick(10_000).answer({ state: 'absent', reason: 'evicted', detail: 'by hand' }, 10_000)
    expect(player.effects).toEqual([{ type: 'lost', reason: 'evicted', detail: 'by hand' }])
  })

  test('by hand renews only when asked, and warns at one third left', () => {
    const player = new Player({ terms: { heartbeatMs: Infinity } }).answer(held(), 0, 0)
    expect(wakeAt(player.state)).toBe(18_498)
    expect(player.tick(18_498).done).toEqual(['jeopardy'])
    expect(player.play({ type: 'renew', at: 19_000, ttlMs: 60_000 }).done).toEqual(['renew'])
    expect(player.answer(held(60_000), 19_000, 19_000, 60_000).state.deadline).toBe(19_000 + 60_000 - 3002)
  })

  test('is trusted for no longer than was asked for, whatever the store answers', () => {
    const player = new Player().answer(held(60_000), 0, 0)
    expect(player.state.deadline).toBe(30_000 - 1502)
    expect(player.answer(held(2 ** 53), 100).state.deadline).toBe(100 + 30_000 - 1502)
  })

  test('asked to renew for longer raises no false alarm meanwhile', () => {
    const player = holding().play({ type: 'renew', at: 100, ttlMs: 300_000 })
    expect(player.tick(101).done).toEqual([])
    expect(wakeAt(player.state)).toBe(18_498)
  })

  test('quickens a heartbeat that a shorter ttl leaves no room for', () => {
    const player = holding().play({ type: 'renew', at: 100, ttlMs: 3000 }).answer(held(3000), 100)
    expect(wakeAt(player.state)).toBe(1100)
  })

  test('asked to leave, renews no more and is lost when its time is over', () => {
    const player = holding().received({ state: 'held', fence: 7, ttlMs: 25_000, leaving: 'preempted' }, 5000)
    expect(player.effects).toEqual([{ type: 'leaving', reason: 'preempted', leftMs: 23_498 }])
    expect(wakeAt(player.state)).toBe(18_498)
    expect(player.tick(18_498).done).toEqual(['jeopardy'])
    expect(player.tick(28_498).effects).toMatchObject([{ type: 'lost', reason: 'preempted' }])
  })

  test('asked to leave, trusts no more than it is told is left, from when it hears of it', () => {
    const player = holding().received({ state: 'held', fence: 7, ttlMs: 10_000, leaving: 'preempted' }, 5000)
    expect(player.effects).toEqual([{ type: 'leaving', reason: 'preempted', leftMs: 9498 }])
    expect(player.tick(14_498).done).toEqual(['lost'])
  })

  test('trusts no more for what another thread was told while a shorter ttl waits to be asked for', () => {
    const player = holding().tick(10_000).play({ type: 'renew', at: 10_500, ttlMs: 3000 })
    const elsewhere = { type: 'answer', status: held(), askedMs: 30_000, random: 0.5, elsewhere: true } as const
    expect(player.play({ ...elsewhere, sentAt: 10_600, at: 10_700 }).state.deadline).toBe(28_498)
  })

  test('trusts no more for what another thread asked before its own last answer', () => {
    const player = holding().play({ type: 'renew', at: 10_000, ttlMs: 3000 }).answer(held(3000), 10_000, 10_100, 3000)
    const { deadline } = player.state
    expect(deadline).toBe(12_848)
    const elsewhere = { type: 'answer', status: held(), askedMs: 30_000, random: 0.5, elsewhere: true } as const
    expect(player.play({ ...elsewhere, sentAt: 10_050, at: 10_200 }).state.deadline).toBe(deadline)
  })

  test('with a time by which it must end trusts no lease beyond that', () => {
    const player = new Player({ terms: { hold: { until: 20_000, ttlMinMs: 100 } } }).answer(held(), 0)
    expect(player.state.deadline).toBe(20_000)
    expect(player.tick(10_000).answer(held(), 10_000).state.deadline).toBe(20_000)
    expect(player.tick(20_000).effects).toMatchObject([{ type: 'lost', reason: 'max-hold' }])
  })

  test('is asked to leave once, however often that is heard', () => {
    const leaving = { state: 'held', fence: 7, ttlMs: 25_000, leaving: 'preempted' } as const
    const player = holding().received(leaving, 5000)
    expect(player.received(leaving, 5010).done).toEqual([])
    expect(player.answer(leaving, 5020).done).toEqual([])
  })

  test('asked to leave at the grant is told both, and renews no more', () => {
    const player = new Player().answer({ state: 'held', fence: 7, ttlMs: 30_000, leaving: 'preempted' }, 0, 5)
    expect(player.done).toEqual(['granted', 'leaving'])
    expect(wakeAt(player.state)).toBe(18_498)
    expect(player.tick(18_498).done).toEqual(['jeopardy'])
  })

  test('asked to leave, is promised no more than it had', () => {
    const player = holding().tick(10_000)
    player.answer({ state: 'held', fence: 7, ttlMs: 20_000, leaving: 'preempted' }, 10_000)
    expect(player.state.deadline).toBe(28_498)
    expect(wakeAt(player.state)).toBe(18_498)
  })

  test('takes an answer to an older request for an answer, and keeps what it knows', () => {
    const player = holding()
    player.answer(held(), 10_000, 10_010)
    expect(player.answer(held(), 9000, 10_020).done).toEqual(['renewed'])
    expect(player.state.deadline).toBe(38_498)
  })
})

describe('letting go', () => {
  test('ends when the store has answered', () => {
    const player = holding().play({ type: 'release', at: 50 })
    expect(player.done).toEqual(['release'])
    const status: ClaimStatus = { state: 'absent', reason: 'released' }
    expect(player.play({ type: 'release-answer', at: 60, status, random: 0.5 }).done).toEqual(['released'])
    expect(wakeAt(player.state)).toBe(Infinity)
  })

  test('that is never answered is awaited no longer than the store keeps the claim', () => {
    const player = holding().play({ type: 'release', at: 50 })
    expect(player.tick(30_049).done).toEqual([])
    expect(player.tick(30_050).done).toEqual(['released'])
    expect(player.state.phase).toBe('over')
  })

  test('is told once when the store cannot be reached, and tried for as long as the claim may live', () => {
    const player = holding().play({ type: 'release', at: 0 })
    const fail = (at: number) => player.play({ type: 'release-answer', at, status: unknown, random: 0.5 })
    expect(fail(10).done).toEqual(['released'])
    expect(wakeAt(player.state)).toBe(60)
    expect(player.tick(60).done).toEqual(['release'])
    expect(fail(70).done).toEqual([])
    player.tick(29_990)
    expect(fail(29_990).state.phase).toBe('over')
  })

  test('is tried during the grace too: until then the claim blocks others', () => {
    const player = new Player({ claim: { graceMs: 10_000 } }).answer(held(), 0).play({ type: 'release', at: 0 })
    const fail = (at: number) => player.play({ type: 'release-answer', at, status: unknown, random: 0.5 })
    expect(fail(29_990).state.phase).toBe('releasing')
    player.tick(39_900)
    expect(fail(39_990).state.phase).toBe('over')
  })

  test('after a loss only says goodbye', () => {
    const player = holding().tick(30_000)
    expect(player.play({ type: 'release', at: 30_001 }).done).toEqual(['release'])
    expect(player.state.phase).toBe('lost')
  })

  test('a second time does nothing', () => {
    expect(holding().play({ type: 'release', at: 5 }).play({ type: 'release', at: 6 }).done).toEqual([])
  })
})

describe('converting', () => {
  const gone = { state: 'absent', reason: 'unknown' } as const satisfies ClaimStatus
  const underWay = (at: number) => holding().play({ type: 'converting', at, ttlMs: claim.ttlMs })

  test('is in doubt, not lost, when the store no longer knows the claim; the deadline stands', () => {
    const player = underWay(1000).tick(10_000).answer(gone, 10_000)
    expect([player.state.phase, player.effects]).toEqual(['held', []])
    expect(player.tick(28_498).done).toEqual(['lost'])
  })

  test('to a shorter lease trusts no more than that from then on', () => {
    const player = holding().play({ type: 'converting', at: 1000, ttlMs: 3000 })
    expect(player.state.deadline).toBe(1000 + 3000 - 152)
    expect(player.tick(3000).answer(held(), 3000).state.deadline, 'it may be carried out yet').toBe(3000 + 3000 - 152)
  })

  test('that comes to nothing after that was a loss', () => {
    const player = underWay(1000).tick(10_000).answer(gone, 10_000)
    expect(player.play({ type: 'converting', at: 11_000, ttlMs: undefined }).done).toEqual(['lost'])
  })

  test('that succeeds ends the old life without a word, and late answers are dropped', () => {
    const player = underWay(1000).tick(10_000).play({ type: 'pass-on', at: 10_001 })
    expect([player.state.phase, player.effects]).toEqual(['over', []])
    expect(player.answer(gone, 10_000, 10_002).effects).toEqual([])
  })

  test('does not hide any other end', () => {
    const player = underWay(1000).tick(10_000).answer({ state: 'absent', reason: 'evicted' }, 10_000)
    expect(player.done).toEqual(['lost'])
  })

  test('by a claim whose outcome is unknown sends the same claim again, and takes it back only at the end', () => {
    const player = new Player({ claim: { replaces: 'old' } }).answer(unknown, 0, 10)
    expect(player.done).toEqual(['renewal-failed'])
    expect(player.tick(wakeAt(player.state)).effects).toMatchObject([{ request: { op: 'claim', claim: { id: 'id' } } }])
    expect(player.answer(held(), 40, 50).done).toEqual(['granted'])
    const late = new Player({ claim: { replaces: 'old' } }).answer(unknown, 0, 10).tick(30_000)
    expect(late.done).toEqual(['failed', 'withdraw'])
    expect(late.play({ type: 'release-answer', status: held(), at: 30_010, random: 0 }).state.phase).toBe('over')
  })
})

describe('withdrawn', () => {
  const queued = () => new Player({ claim: { replaces: 'old' } }).answer(waiting, 0, 10)
  const withdraw = (player: Player, at: number) => player.play({ type: 'withdraw', at })

  test('is forgotten by the store, or granted if that was too late', () => {
    expect(withdraw(queued(), 20).done).toEqual(['withdraw'])
    expect(withdraw(queued(), 20).answer({ state: 'absent', reason: 'released' }, 20).done).toEqual(['refused'])
    const late = withdraw(queued(), 20).answer(held(), 20, 25)
    expect([late.done, late.state.phase]).toEqual([['granted'], 'held'])
    expect(late.tick(10_020).done, 'what is held is renewed').toEqual(['renew'])
  })

  test('asks until it is answered, and after a request that is under way', () => {
    const player = withdraw(queued(), 20).answer(unknown, 20, 25, Infinity)
    expect(player.tick(wakeAt(player.state)).done).toEqual(['withdraw'])
    const asking = withdraw(new Player({ claim: { replaces: 'old' } }), 5)
    expect([asking.done, asking.answer(waiting, 0, 10).done]).toEqual([[], ['queued', 'withdraw']])
    const unheard = withdraw(new Player({ claim: { replaces: 'old' } }), 5).answer(unknown, 0, 10)
    expect(unheard.tick(wakeAt(unheard.state)).done).toEqual(['withdraw'])
  })

  test('is nothing to a claim that is held or over', () => {
    expect(withdraw(holding(), 20).done).toEqual([])
    expect(withdraw(holding().play({ type: 'release', at: 5 }), 20).done).toEqual([])
  })
})

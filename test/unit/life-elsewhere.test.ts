import { describe, expect, test } from 'vitest'
import type { ClaimStatus } from '../../src/core/contract/driver.ts'
import { begin, step, type ClaimEvent, type ClaimState } from '../../src/core/client/claim-step.ts'
import { claimOf } from '../support/claims.ts'

const claim = claimOf('key', { id: 'id', ttlMs: 30_000 })
const held = (ttlMs: number): ClaimStatus => ({ state: 'held', fence: 7, ttlMs })
const trustedMs = (ttlMs: number): number => ttlMs - ttlMs * 0.05 - 2

/** A held lease of which another thread takes care, too. */
class Shared {
  state: ClaimState
  done: string[] = []

  constructor() {
    const [asked] = begin(claim, { heartbeatMs: 10_000, polling: undefined, schedule: undefined }, 0)
    this.state = asked
    this.answer(0, 30_000).play({ type: 'elsewhere', at: 0, ttlMs: 30_000 })
  }

  play(event: ClaimEvent): this {
    const [state, effects] = step(this.state, event)
    this.state = state
    this.done = effects.map((effect) => (effect.type === 'send' ? effect.request.op : effect.type))
    return this
  }

  /** What was asked here at `sentAt`, or elsewhere, is answered 10 ms later. */
  answer(sentAt: number, ttlMs: number, elsewhere = false): this {
    const asked = { sentAt, askedMs: ttlMs, at: sentAt + 10, random: 0, elsewhere }
    return this.play({ type: 'answer', status: held(ttlMs), ...asked })
  }
}

describe('a lease that another thread renews too', () => {
  test('is trusted no longer than the shortest ttl that the thread may be asking for', () => {
    const lease = new Shared().play({ type: 'renew', at: 1000, ttlMs: 60_000 }).answer(1000, 60_000)
    expect(lease.state.deadline).toBe(1000 + trustedMs(30_000))
  })

  test('is trusted no longer than a shorter ttl from when the thread is told of it', () => {
    const lease = new Shared().play({ type: 'elsewhere', at: 1000, ttlMs: 3000 })
    expect(lease.state.deadline).toBe(1000 + trustedMs(3000))
  })

  test('is had in full as soon as the thread no longer asks for less', () => {
    const lease = new Shared().play({ type: 'renew', at: 1000, ttlMs: 60_000 }).answer(1000, 60_000)
    expect(lease.play({ type: 'elsewhere', at: 2000, ttlMs: 60_000 }).done).toEqual(['renew'])
    expect(lease.answer(2000, 60_000).state.deadline).toBe(2000 + trustedMs(60_000))
  })

  test('is trusted as before when the thread asks for nothing any more', () => {
    const lease = new Shared().play({ type: 'elsewhere', at: 1000, ttlMs: undefined })
    expect([lease.state.deadline, lease.done]).toEqual([trustedMs(30_000), []])
  })

  test('is renewed in time also while it is trusted for less than its heartbeat', () => {
    const lease = new Shared().play({ type: 'elsewhere', at: 0, ttlMs: 3000 })
    lease.play({ type: 'renew', at: 2000, ttlMs: 30_000 })
    expect(lease.answer(2000, 30_000).state.nextAt).toBeLessThanOrEqual(2000 + 1000)
  })

  test('keeps in mind, whatever the thread is answered, that a request of its own is under way', () => {
    const lease = new Shared().play({ type: 'renew', at: 1000, ttlMs: 30_000 }).answer(1001, 30_000, true)
    expect(lease.state.inFlight).toBe(true)
    // So this one waits for that, and what is answered to that does not count for this one.
    expect(lease.play({ type: 'renew', at: 1002, ttlMs: 3000 }).done).toEqual([])
    expect(lease.answer(1000, 30_000).done).toEqual(['renewed', 'renew'])
    expect(lease.state.deadline).toBe(1010 + trustedMs(3000))
  })

  test('is not trusted for more while a request for less is under way, though more is wanted since', () => {
    const lease = new Shared().play({ type: 'renew', at: 1000, ttlMs: 3000 })
    lease.play({ type: 'renew', at: 1001, ttlMs: 30_000 }).answer(1002, 30_000, true)
    expect(lease.state.deadline).toBe(1000 + trustedMs(3000))
    expect(lease.answer(1000, 3000).done).toEqual(['renewed', 'renew'])
  })

  test('nor because the thread asked for more beside it: the one for less may have arrived after that', () => {
    const lease = new Shared()
      .play({ type: 'renew', at: 1000, ttlMs: 3000 })
      .play({ type: 'renew', at: 1001, ttlMs: 30_000 })
    lease.answer(1000, 3000).answer(1005, 30_000, true)
    expect(lease.state.deadline).toBe(1000 + trustedMs(3000))
    expect(lease.answer(1011, 30_000, true).state.deadline).toBe(1011 + trustedMs(30_000))
  })
})

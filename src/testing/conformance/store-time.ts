import { expect } from '../vitest.ts'
import type { Fact } from './fact.ts'

/** The store's clock alone judges when a lease ends. */
export function storeTime(fact: Fact): void {
  fact('a lease lasts its ttl and ends on the instant', [], async (stage) => {
    const held = await stage.hold('one', { ttl: 4 })
    stage.expectTicks(held.ttlMs, 4)
    await stage.passAlmost(4)
    await stage.refused('two')
    await stage.passTheRest()
    await stage.hold('three')
  })

  fact('what is left of a lease is told with every answer', [], async (stage) => {
    await stage.hold('one', { ttl: 10 })
    await stage.pass(3)
    stage.expectTicks((await stage.standsHeld('one')).ttlMs, 7)
  })

  fact('renewing sets the end to now plus ttl and never adds', [], async (stage) => {
    await stage.hold('one', { ttl: 10 })
    for (let turn = 0; turn < 3; turn += 1) {
      const status = await stage.renew('one', 10)
      expect(status.state).toBe('held')
      if (status.state === 'held') stage.expectTicks(status.ttlMs, 10)
    }
    await stage.pass(6)
    await stage.renew('one', 5)
    await stage.passAlmost(5)
    await stage.refused('two')
    await stage.passTheRest()
    await stage.hold('three')
  })

  fact('a shorter renewal shortens the lease', [], async (stage) => {
    await stage.hold('one', { ttl: 20 })
    const status = await stage.renew('one', 2)
    if (status.state === 'held') stage.expectTicks(status.ttlMs, 2)
    await stage.pass(3)
    await stage.hold('two')
  })

  fact('a lease that has ended is not renewed', [], async (stage) => {
    await stage.hold('one', { ttl: 2 })
    await stage.pass(3)
    expect(await stage.renew('one')).toMatchObject({ state: 'absent' })
    await stage.hold('two')
    expect(await stage.renew('one')).toMatchObject({ state: 'absent' })
    await stage.standsHeld('two')
  })

  fact('releasing an ended lease leaves its successor alone', [], async (stage) => {
    await stage.hold('one', { ttl: 2 })
    await stage.pass(3)
    const { fence } = await stage.hold('two')
    expect(await stage.release('one')).toMatchObject({ state: 'absent' })
    expect((await stage.standsHeld('two')).fence).toBe(fence)
  })

  fact('in its grace a claim is over for its owner and still blocks others', ['grace'], async (stage) => {
    await stage.hold('one', { ttl: 3, grace: 3 })
    await stage.passAlmost(3)
    await stage.standsHeld('one')
    await stage.passTheRest()
    await stage.refused('two')
    expect(await stage.status('one')).toEqual({ state: 'absent', reason: 'expired' })
    expect(await stage.renew('one')).toEqual({ state: 'absent', reason: 'expired' })
    await stage.pass(1)
    await stage.refused('three')
    await stage.pass(2)
    await stage.hold('four')
  })

  fact('a release ends a grace', ['grace'], async (stage) => {
    await stage.hold('one', { ttl: 2, grace: 20 })
    await stage.pass(3)
    await stage.refused('two')
    expect(await stage.release('one')).toMatchObject({ state: 'absent' })
    await stage.hold('three')
  })

  fact('a clean release needs no grace', ['grace'], async (stage) => {
    await stage.hold('one', { grace: 20 })
    await stage.release('one')
    await stage.hold('two')
  })

  fact('a waiter counts the grace of the one in its way', ['grace', 'queue'], async (stage) => {
    await stage.hold('one', { ttl: 2, grace: 3 })
    const { againMs } = await stage.queue('two', { ttl: 20 })
    stage.expectTicks(againMs, 5)
  })

  fact('nothing is held beyond its longest hold, however often renewed', ['maxHold'], async (stage) => {
    await stage.hold('one', { ttl: 4, maxHold: 6 })
    await stage.pass(3)
    const status = await stage.renew('one', 10)
    expect(status.state).toBe('held')
    if (status.state === 'held') stage.expectTicks(status.ttlMs, 3)
    await stage.passAlmost(3)
    await stage.refused('two')
    await stage.passTheRest()
    await stage.hold('three')
    expect(await stage.renew('one')).toMatchObject({ state: 'absent' })
  })

  fact('a ttl longer than the longest hold is cut to it', ['maxHold'], async (stage) => {
    stage.expectTicks((await stage.hold('one', { ttl: 20, maxHold: 2 })).ttlMs, 2)
  })

  fact('the longest hold counts from the grant, not from the wait', ['maxHold', 'queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two', { ttl: 20, maxHold: 5 })
    await stage.pass(4)
    await stage.release('one')
    stage.expectTicks((await stage.standsHeld('two')).ttlMs, 5)
  })

  fact('the end of a longest hold is named', ['maxHold'], async (stage) => {
    await stage.hold('one', { ttl: 20, maxHold: 2 })
    await stage.pass(3)
    const status = await stage.renew('one')
    expect(['max-hold', 'unknown']).toContain(status.state === 'absent' && status.reason)
  })
}

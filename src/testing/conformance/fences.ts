import { expect } from '../vitest.ts'
import type { Fact } from './fact.ts'

/** Fences are safe integers that only grow, for ever. */
export function fences(fact: Fact): void {
  fact('a fence is a safe integer above zero', [], async (stage) => {
    const { fence } = await stage.hold('one')
    expect(Number.isSafeInteger(fence)).toBe(true)
    expect(fence).toBeGreaterThan(0)
  })

  fact('fences grow from holder to holder', [], async (stage) => {
    let last = 0
    for (let turn = 0; turn < 10; turn += 1) {
      const { fence } = await stage.hold(`turn ${turn}`)
      expect(fence).toBeGreaterThan(last)
      last = fence
      await stage.release(`turn ${turn}`)
    }
  })

  fact('those who share have different fences, in the order of their grants', ['shared'], async (stage) => {
    const first = await stage.hold('one', { mode: 'shared' })
    const second = await stage.hold('two', { mode: 'shared' })
    const three = await stage.hold('three', { mode: 'shared' })
    expect(second.fence).toBeGreaterThan(first.fence)
    expect(three.fence).toBeGreaterThan(second.fence)
  })

  fact('a promoted waiter has a higher fence than the one before it', ['queue'], async (stage) => {
    const first = await stage.hold('one')
    await stage.queue('two')
    await stage.release('one')
    expect((await stage.standsHeld('two')).fence).toBeGreaterThan(first.fence)
  })

  fact('a fence outlives the expiry of its lease', [], async (stage) => {
    const first = await stage.hold('one', { ttl: 2 })
    await stage.pass(3)
    expect((await stage.hold('two')).fence).toBeGreaterThan(first.fence)
  })

  fact('renewing keeps the fence', [], async (stage) => {
    const { fence } = await stage.hold('one')
    expect(await stage.renew('one')).toMatchObject({ state: 'held', fence })
    expect((await stage.standsHeld('one')).fence).toBe(fence)
  })

  fact('refused claims leave the fence growing', [], async (stage) => {
    const first = await stage.hold('one')
    for (let turn = 0; turn < 5; turn += 1) await stage.refused(`refused ${turn}`)
    await stage.release('one')
    expect((await stage.hold('two')).fence).toBeGreaterThan(first.fence)
  })

  fact('a key whose name was not used for a while goes on where it stopped', [], async (stage) => {
    const { fence } = await stage.hold('one')
    await stage.release('one')
    for (let turn = 0; turn < 50; turn += 1) {
      const key = `stage/named:other-${turn}`
      await stage.hold(`other ${turn}`, { key })
      await stage.release(`other ${turn}`)
    }
    await stage.pass(3)
    expect((await stage.hold('two')).fence).toBeGreaterThan(fence)
  })

  fact('fences grow across a restart of the store', ['restart'], async (stage) => {
    const { fence } = await stage.hold('one')
    await stage.release('one')
    await stage.restart()
    expect((await stage.hold('two')).fence).toBeGreaterThan(fence)
  })

  fact('a claim and its fence live through a restart of the store', ['restart'], async (stage) => {
    const { fence } = await stage.hold('one')
    await stage.restart()
    await stage.refused('two')
    expect(await stage.renew('one')).toMatchObject({ state: 'held', fence })
  })

  fact('fences grow even across a store that comes back empty', ['empty', 'fence'], async (stage) => {
    const { fence } = await stage.hold('one')
    for (let turn = 0; turn < 20; turn += 1) {
      await stage.hold(`other ${turn}`, { key: 'stage/named:other' })
      await stage.release(`other ${turn}`)
    }
    const onOtherKey = await stage.hold('other', { key: 'stage/named:other' })
    // The clock that bounds a new store's fences is read in milliseconds.
    await stage.pass(1)
    await stage.empty()
    expect((await stage.hold('two')).fence).toBeGreaterThan(fence)
    expect((await stage.hold('three', { key: 'stage/named:other' })).fence).toBeGreaterThan(onOtherKey.fence)
  })

  fact('a fence floor lifts the fence of a holder and all later ones', ['fence'], async (stage) => {
    const { fence } = await stage.hold('one')
    const floor = fence + 1_000_000
    expect(await stage.renew('one', 30, floor)).toMatchObject({ state: 'held', fence: floor })
    expect(await stage.renew('one', 30, floor)).toMatchObject({ state: 'held', fence: floor })
    expect(await stage.renew('one', 30, fence)).toMatchObject({ state: 'held', fence: floor })
    await stage.release('one')
    expect((await stage.hold('two')).fence).toBeGreaterThan(floor)
  })

  fact('a fence floor told by a waiter lifts later fences', ['fence', 'queue'], async (stage) => {
    const { fence } = await stage.hold('one')
    await stage.queue('two')
    await stage.renew('two', 30, fence + 1000)
    await stage.release('one')
    expect((await stage.standsHeld('two')).fence).toBeGreaterThan(fence + 1000)
  })
}

import { expect } from '../vitest.ts'
import type { Fact } from './fact.ts'

/** Upgrades and downgrades: a new claim takes the place of a held one in one step. */
export function conversion(fact: Fact): void {
  fact('a lone reader becomes the writer at once, with a new fence', ['convert', 'shared'], async (stage) => {
    const reader = await stage.hold('reader', { mode: 'shared' })
    const writer = await stage.hold('writer', { replaces: 'reader' })
    expect(writer.fence).toBeGreaterThan(reader.fence)
    expect(await stage.renew('reader')).toMatchObject({ state: 'absent' })
    expect(await stage.listed()).toHaveLength(1)
    await stage.refused('other', { mode: 'shared' })
  })

  fact(
    'an upgrade waits for the other readers and keeps its own place',
    ['convert', 'shared', 'queue'],
    async (stage) => {
      await stage.hold('reader', { mode: 'shared' })
      await stage.hold('other', { mode: 'shared' })
      await stage.queue('upgrade', { replaces: 'reader' })
      await stage.standsHeld('reader')
      await stage.queue('late reader', { mode: 'shared' })
      await stage.release('other')
      await stage.standsHeld('upgrade')
      expect(await stage.renew('reader')).toMatchObject({ state: 'absent' })
      await stage.standsWaiting('late reader')
    },
  )

  fact(
    'an upgrade stands ahead of every waiter of any priority',
    ['convert', 'shared', 'queue', 'priority'],
    async (stage) => {
      await stage.hold('reader', { mode: 'shared' })
      await stage.hold('other', { mode: 'shared' })
      await stage.queue('writer', { priority: 100 })
      expect((await stage.queue('upgrade', { replaces: 'reader', priority: -100 })).ahead).toBe(0)
      await stage.release('other')
      await stage.standsHeld('upgrade')
      await stage.standsWaiting('writer')
    },
  )

  fact(
    'a second upgrader is told of the deadlock and keeps what it has',
    ['convert', 'shared', 'queue'],
    async (stage) => {
      await stage.hold('one', { mode: 'shared' })
      await stage.hold('two', { mode: 'shared' })
      await stage.queue('first upgrade', { replaces: 'one' })
      const second = await stage.claim('second upgrade', { replaces: 'two' })
      expect(second).toEqual({ state: 'absent', reason: 'deadlock' })
      await stage.standsHeld('two')
      await stage.release('two')
      await stage.standsHeld('first upgrade')
    },
  )

  fact('an upgrade given up leaves the old claim held', ['convert', 'shared', 'queue'], async (stage) => {
    await stage.hold('one', { mode: 'shared' })
    await stage.hold('two', { mode: 'shared' })
    await stage.queue('upgrade', { replaces: 'one' })
    expect(await stage.withdraw('upgrade')).toEqual({ state: 'absent', reason: 'released' })
    await stage.standsHeld('one')
    await stage.queue('other upgrade', { replaces: 'two' })
    expect(await stage.withdraw('upgrade')).toMatchObject({ state: 'absent' })
  })

  fact('an upgrade given up too late is held', ['convert', 'shared', 'queue'], async (stage) => {
    await stage.hold('one', { mode: 'shared' })
    await stage.hold('two', { mode: 'shared' })
    await stage.queue('upgrade', { replaces: 'one' })
    await stage.queue('next')
    await stage.release('two')
    expect(await stage.withdraw('upgrade')).toMatchObject({ state: 'held' })
    await stage.standsWaiting('next')
    await stage.release('upgrade')
    await stage.standsHeld('next')
  })

  fact(
    'an upgrade lasts at least as long as the lease whose place it took',
    ['convert', 'shared', 'queue'],
    async (stage) => {
      await stage.hold('one', { mode: 'shared', ttl: 20 })
      await stage.hold('two', { mode: 'shared' })
      await stage.queue('upgrade', { replaces: 'one', ttl: 4 })
      await stage.queue('next')
      await stage.release('two')
      await stage.pass(6)
      await stage.standsWaiting('next')
      await stage.standsHeld('upgrade')
      await stage.pass(15)
      await stage.standsHeld('next')
    },
  )

  fact('an upgrade refused leaves the old claim held', ['convert', 'shared'], async (stage) => {
    await stage.hold('one', { mode: 'shared' })
    await stage.hold('two', { mode: 'shared' })
    await stage.refused('upgrade', { replaces: 'one' })
    await stage.standsHeld('one')
    await stage.standsHeld('two')
  })

  fact('a dead upgrader does not keep others from upgrading', ['convert', 'shared', 'queue'], async (stage) => {
    await stage.hold('one', { mode: 'shared' })
    await stage.hold('two', { mode: 'shared' })
    await stage.queue('dead upgrade', { replaces: 'one', ttl: 2 })
    await stage.pass(3)
    await stage.queue('upgrade', { replaces: 'two' })
    await stage.release('one')
    await stage.standsHeld('upgrade')
  })

  fact('a downgrade is granted at once and lets readers in', ['convert', 'shared', 'queue'], async (stage) => {
    const writer = await stage.hold('writer')
    await stage.queue('one', { mode: 'shared' })
    await stage.queue('two', { mode: 'shared' })
    await stage.queue('next writer')
    const reader = await stage.hold('downgrade', { mode: 'shared', replaces: 'writer' })
    expect(reader.fence).toBeGreaterThan(writer.fence)
    await stage.standsHeld('one')
    await stage.standsHeld('two')
    await stage.standsWaiting('next writer')
    expect(await stage.renew('writer')).toMatchObject({ state: 'absent' })
  })

  fact('what is not held cannot be converted', ['convert', 'shared', 'queue'], async (stage) => {
    await stage.hold('writer')
    await stage.queue('waiter', { mode: 'shared' })
    expect(await stage.claim('conversion', { replaces: 'waiter' })).toEqual({ state: 'absent', reason: 'unknown' })
    await stage.release('writer')
    await stage.release('waiter')
    expect(await stage.claim('late conversion', { replaces: 'writer' })).toEqual({ state: 'absent', reason: 'unknown' })
  })

  fact('an upgrade ends when the claim under it has', ['convert', 'shared', 'queue'], async (stage) => {
    await stage.hold('one', { mode: 'shared', ttl: 3 })
    await stage.hold('two', { mode: 'shared' })
    await stage.queue('upgrade', { replaces: 'one' })
    await stage.pass(4)
    expect(await stage.renew('upgrade')).toMatchObject({ state: 'absent' })
    await stage.release('two')
    await stage.hold('writer')
  })

  fact('a conversion sent twice is one conversion', ['convert', 'shared'], async (stage) => {
    await stage.hold('reader', { mode: 'shared' })
    const { fence } = await stage.hold('writer', { replaces: 'reader' })
    expect((await stage.standsHeld('writer')).fence).toBe(fence)
  })

  fact('a range is converted within its key', ['convert', 'shared', 'range'], async (stage) => {
    await stage.hold('reader', { mode: 'shared', range: [0, 10] })
    await stage.hold('beside', { range: [10, 20] })
    await stage.hold('writer', { range: [0, 10], replaces: 'reader' })
    await stage.refused('wider', { range: [0, 20], replaces: 'writer' })
    await stage.standsHeld('writer')
  })
}

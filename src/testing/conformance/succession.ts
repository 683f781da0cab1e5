import { expect } from '../vitest.ts'
import type { Fact } from './fact.ts'

/** Who takes over from an unclean end is told about it: a hint, given once. */
export function succession(fact: Fact): void {
  fact('who takes over an expired lock is told whose it was', [], async (stage) => {
    const { fence, after } = await stage.hold('one', { ttl: 3 })
    expect(after).toBeUndefined()
    await stage.pass(4)
    const two = await stage.hold('two')
    expect(two.after).toMatchObject({ how: 'expired', fence, runner: { id: 'runner-one', host: 'stage' } })
    expect((await stage.standsHeld('two')).after).toEqual(two.after)
  })

  fact('a clean hand-over has no story', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two')
    await stage.release('one')
    expect((await stage.standsHeld('two')).after).toBeUndefined()
  })

  fact('the story is told once', [], async (stage) => {
    await stage.hold('one', { ttl: 3 })
    await stage.pass(4)
    await stage.hold('two')
    await stage.release('two')
    expect((await stage.hold('three')).after).toBeUndefined()
  })

  fact('a promoted waiter is told too', ['queue'], async (stage) => {
    const { fence } = await stage.hold('one', { ttl: 3 })
    await stage.queue('two')
    await stage.pass(4)
    expect((await stage.standsHeld('two')).after).toMatchObject({ how: 'expired', fence })
  })

  fact('the next holder learns that an operator evicted the last one', ['evict'], async (stage) => {
    const { fence } = await stage.hold('one')
    // An operator may give any reason.
    await stage.evict(fence, 'stale')
    const { after } = await stage.hold('two')
    expect(after).toMatchObject({ how: 'evicted', cause: 'operator', fence })
    expect((await stage.standsHeld('two')).after).toEqual(after)
  })

  fact(
    'a waiter that takes over stale holders learns that an operator evicted this one',
    ['evict stale', 'queue'],
    async (stage) => {
      const { fence } = await stage.hold('one')
      await stage.queue('two', { evict: 'stale', stale: 60 })
      await stage.evict(fence)
      expect((await stage.standsHeld('two')).after).toMatchObject({ how: 'evicted', cause: 'operator', fence })
    },
  )

  fact('the next holder learns that the last one was taken for stale', ['evict stale'], async (stage) => {
    const { fence } = await stage.hold('one')
    await stage.pass(5)
    const { after } = await stage.hold('two', { evict: 'stale', stale: 4 })
    expect(after).toMatchObject({ how: 'evicted', cause: 'stale', fence })
  })

  fact('the next holder learns that its runner has reclaimed the lock', ['evict same-runner'], async (stage) => {
    const { fence } = await stage.hold('before', { runner: 'me' })
    const { after } = await stage.hold('after', { runner: 'me', evict: 'same-runner' })
    expect(after).toMatchObject({ how: 'evicted', cause: 'reclaimed', fence })
  })

  fact('the next holder learns that the last one was forced out', ['evict all'], async (stage) => {
    const { fence } = await stage.hold('one')
    const { after } = await stage.hold('two', { evict: 'all' })
    expect(after).toMatchObject({ how: 'evicted', cause: 'forced', fence })
  })

  fact('the end of a longest hold is part of the story', ['maxHold'], async (stage) => {
    const { fence } = await stage.hold('one', { ttl: 10, maxHold: 2 })
    await stage.pass(3)
    expect((await stage.hold('two')).after).toMatchObject({ how: 'max-hold', fence })
  })
}

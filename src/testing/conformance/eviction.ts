import { expect } from '../vitest.ts'
import type { Fact } from './fact.ts'

/** Which holders an eviction may turn out, who may evict, and that nobody is turned out for a claim that is not granted. */
export function eviction(fact: Fact): void {
  fact('an operator evicts a holder by its fence', ['evict'], async (stage) => {
    const { fence } = await stage.hold('one')
    expect(await stage.evict(fence, 'stuck')).toEqual({ state: 'absent', reason: 'evicted', detail: 'stuck' })
    expect(await stage.renew('one')).toEqual({ state: 'absent', reason: 'evicted', detail: 'stuck' })
    await stage.hold('two')
  })

  fact('evicting lets the next in line in', ['evict', 'queue'], async (stage) => {
    const { fence } = await stage.hold('one')
    await stage.queue('two')
    await stage.evict(fence)
    await stage.standsHeld('two')
  })

  fact('evicting an old fence touches nobody', ['evict'], async (stage) => {
    const { fence } = await stage.hold('one')
    await stage.release('one')
    await stage.hold('two')
    expect(await stage.evict(fence)).toEqual({ state: 'absent', reason: 'unknown' })
    await stage.standsHeld('two')
  })

  fact('an evicted fence is one holder of several', ['evict', 'shared'], async (stage) => {
    await stage.hold('one', { mode: 'shared' })
    const { fence } = await stage.hold('two', { mode: 'shared' })
    await stage.hold('three', { mode: 'shared' })
    await stage.evict(fence)
    await stage.standsHeld('one')
    await stage.standsHeld('three')
    expect(await stage.renew('two')).toMatchObject({ state: 'absent', reason: 'evicted' })
  })

  fact('a silent holder is taken for stale only after staleMs', ['evict stale'], async (stage) => {
    await stage.hold('one')
    await stage.pass(3)
    await stage.refused('too early', { evict: 'stale', stale: 4 })
    await stage.pass(2)
    await stage.hold('two', { evict: 'stale', stale: 4 })
    expect(await stage.renew('one')).toEqual({ state: 'absent', reason: 'evicted', detail: 'stale' })
  })

  fact('a holder that is heard of is not stale', ['evict stale'], async (stage) => {
    await stage.hold('one')
    await stage.pass(3)
    await stage.renew('one')
    await stage.pass(3)
    await stage.refused('two', { evict: 'stale', stale: 4 })
    await stage.standsHeld('one')
  })

  fact('the place of a stale holder goes to the first in line', ['evict stale', 'queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two')
    await stage.pass(5)
    await stage.queue('three', { evict: 'stale', stale: 4 })
    await stage.standsHeld('two')
  })

  fact('a waiter that renews takes a holder for stale as time passes', ['evict stale', 'queue'], async (stage) => {
    await stage.hold('one', { ttl: 60 })
    const { againMs } = await stage.queue('two', { evict: 'stale', stale: 4 })
    stage.expectTicks(againMs, 4)
    await stage.pass(5)
    expect(await stage.renew('two')).toMatchObject({ state: 'held' })
  })

  fact(
    'a holder of lower priority is told to leave and keeps what it has',
    ['evict lower-priority', 'queue'],
    async (stage) => {
      await stage.hold('low', { ttl: 8, priority: 0 })
      await stage.queue('high', { priority: 5, evict: 'lower-priority' })
      const renewed = await stage.renew('low', 20)
      expect(renewed).toMatchObject({ state: 'held', leaving: 'preempted' })
      if (renewed.state === 'held') stage.expectTicks(renewed.ttlMs, 8)
      await stage.standsWaiting('high')
      await stage.pass(9)
      await stage.standsHeld('high')
    },
  )

  fact('who was told to leave makes room by releasing', ['evict lower-priority', 'queue'], async (stage) => {
    await stage.hold('low', { priority: 0 })
    await stage.queue('high', { priority: 5, evict: 'lower-priority' })
    await stage.release('low')
    await stage.standsHeld('high')
  })

  fact('equal priority tells nobody to leave', ['evict lower-priority', 'queue'], async (stage) => {
    await stage.hold('one', { priority: 5 })
    await stage.queue('two', { priority: 5, evict: 'lower-priority' })
    expect((await stage.standsHeld('one')).leaving).toBeUndefined()
  })

  fact(
    'one permit is wanted, so one holder is told to leave: the lowest',
    ['evict lower-priority', 'queue', 'limit'],
    async (stage) => {
      const permit = { mode: 'shared', limit: 2 } as const
      await stage.hold('low', { ...permit, priority: 1 })
      await stage.hold('lower', { ...permit, priority: 0 })
      await stage.queue('high', { ...permit, priority: 5, evict: 'lower-priority' })
      expect((await stage.standsHeld('lower')).leaving).toBe('preempted')
      expect((await stage.standsHeld('low')).leaving).toBeUndefined()
    },
  )

  fact(
    'nobody is told to leave if another stays in the way',
    ['evict lower-priority', 'queue', 'shared'],
    async (stage) => {
      await stage.hold('low', { mode: 'shared', priority: 0 })
      await stage.hold('peer', { mode: 'shared', priority: 5 })
      await stage.queue('high', { priority: 5, evict: 'lower-priority' })
      expect((await stage.standsHeld('low')).leaving).toBeUndefined()
    },
  )

  fact('a runner takes back its own lock at once, with a new fence', ['evict same-runner'], async (stage) => {
    const before = await stage.hold('before', { runner: 'me' })
    const after = await stage.hold('after', { runner: 'me', evict: 'same-runner' })
    expect(after.fence).toBeGreaterThan(before.fence)
    expect(await stage.renew('before')).toEqual({ state: 'absent', reason: 'evicted', detail: 'reclaimed' })
  })

  fact('a runner does not take back the lock of another', ['evict same-runner'], async (stage) => {
    await stage.hold('theirs', { runner: 'they' })
    await stage.refused('mine', { runner: 'me', evict: 'same-runner' })
    await stage.standsHeld('theirs')
  })

  fact('a runner takes its own place back before those who wait', ['evict same-runner', 'queue'], async (stage) => {
    await stage.hold('before', { runner: 'me' })
    await stage.queue('other')
    await stage.hold('after', { runner: 'me', evict: 'same-runner' })
    await stage.standsWaiting('other')
  })

  fact('a runner gives up nothing while another stays in its way', ['evict same-runner', 'shared'], async (stage) => {
    await stage.hold('mine', { runner: 'me', mode: 'shared' })
    await stage.hold('theirs', { runner: 'they', mode: 'shared' })
    await stage.refused('exclusive', { runner: 'me', evict: 'same-runner' })
    await stage.standsHeld('mine')
  })

  fact(
    'force takes the place of every holder in the way, before those who wait',
    ['evict all', 'queue', 'shared'],
    async (stage) => {
      await stage.hold('one', { mode: 'shared' })
      await stage.hold('two', { mode: 'shared' })
      await stage.queue('waiter')
      await stage.hold('forced', { evict: 'all' })
      const evicted = { state: 'absent', reason: 'evicted' }
      expect(await stage.renew('two')).toMatchObject({ ...evicted })
      expect((await stage.renew('one')).state).toBe('absent')
      await stage.standsWaiting('waiter')
      await stage.release('forced')
      await stage.standsHeld('waiter')
    },
  )

  fact('force leaves alone who is not in the way', ['evict all', 'range'], async (stage) => {
    await stage.hold('left', { range: [0, 10] })
    await stage.hold('right', { range: [10, 20] })
    await stage.hold('forced', { range: [15, 30], evict: 'all' })
    await stage.standsHeld('left')
    expect(await stage.renew('right')).toMatchObject({ state: 'absent', reason: 'evicted' })
  })

  fact('force turns nobody out where there is room', ['evict all', 'shared', 'limit'], async (stage) => {
    const permit = { mode: 'shared', limit: 2 } as const
    await stage.hold('one', permit)
    await stage.hold('two', { ...permit, evict: 'all' })
    await stage.standsHeld('one')
    await stage.hold('three', { ...permit, evict: 'all' })
    await stage.standsHeld('two')
  })

  fact('an eviction does not wait for a grace', ['evict', 'grace'], async (stage) => {
    const { fence } = await stage.hold('one', { ttl: 2, grace: 20 })
    await stage.pass(3)
    await stage.refused('two')
    await stage.evict(fence)
    await stage.hold('three')
  })

  fact('the one that takes over is told who was there and how it ended', ['evict'], async (stage) => {
    const { fence } = await stage.hold('one')
    await stage.evict(fence)
    const { after } = await stage.hold('two')
    expect(after).toMatchObject({ how: 'evicted', fence, runner: { id: 'runner-one' } })
  })
}

import { expect } from '../vitest.ts'
import type { Fact } from './fact.ts'
import type { Stage } from './stage.ts'

/** Higher priority first, then arrival; nobody barges. */
export function order(fact: Fact): void {
  fact('waiters are served in the order of their arrival', ['queue'], async (stage) => {
    const names = ['one', 'two', 'three', 'four', 'five']
    await stage.hold('one')
    for (const name of names.slice(1)) await stage.queue(name)
    await expectServed(stage, names)
  })

  fact('a waiter is told how many stand in front of it', ['queue'], async (stage) => {
    await stage.hold('one')
    expect((await stage.queue('two')).ahead).toBe(0)
    expect((await stage.queue('three')).ahead).toBe(1)
    expect((await stage.queue('four')).ahead).toBe(2)
    await stage.release('three')
    expect(await stage.status('four')).toMatchObject({ state: 'waiting', ahead: 1 })
  })

  fact('higher priority goes first, and equals by arrival', ['queue', 'priority'], async (stage) => {
    await stage.hold('holder')
    await stage.queue('low', { priority: -10 })
    await stage.queue('normal')
    await stage.queue('high', { priority: 10 })
    await stage.queue('also normal')
    expect((await stage.queue('also high', { priority: 10 })).ahead).toBe(1)
    await expectServed(stage, ['holder', 'high', 'also high', 'normal', 'also normal', 'low'])
  })

  fact('priority does not take a lock that is held', ['queue', 'priority'], async (stage) => {
    await stage.hold('low', { priority: -10 })
    await stage.queue('high', { priority: 10 })
    await stage.standsHeld('low')
  })

  fact('a waiter who leaves lets the one behind it move up', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two')
    await stage.queue('three')
    expect(await stage.release('two')).toEqual({ state: 'absent', reason: 'released' })
    await stage.release('one')
    await stage.standsHeld('three')
  })

  fact('nobody barges past a waiter, not even who would not wait', ['queue', 'shared'], async (stage) => {
    await stage.hold('reader', { mode: 'shared' })
    await stage.queue('writer')
    await stage.queue('late reader', { mode: 'shared' })
    await stage.refused('impatient reader', { mode: 'shared' })
    await stage.release('reader')
    await stage.standsHeld('writer')
    await stage.standsWaiting('late reader')
  })

  fact('readers behind a writer come in together once it is done', ['queue', 'shared'], async (stage) => {
    await stage.hold('writer')
    for (const name of ['one', 'two', 'three']) await stage.queue(name, { mode: 'shared' })
    await stage.queue('next writer')
    await stage.queue('four', { mode: 'shared' })
    await stage.release('writer')
    for (const name of ['one', 'two', 'three']) await stage.standsHeld(name)
    await stage.standsWaiting('next writer')
    await stage.standsWaiting('four')
  })

  fact('a permit goes to the first in line', ['queue', 'shared', 'limit'], async (stage) => {
    const permit = { mode: 'shared', limit: 2 } as const
    await stage.hold('one', permit)
    await stage.hold('two', permit)
    await stage.queue('three', permit)
    await stage.queue('four', permit)
    await stage.release('two')
    await stage.standsHeld('three')
    await stage.standsWaiting('four')
  })

  fact('a waiter whose turn has come is granted by whoever asks first', ['queue'], async (stage) => {
    await stage.hold('one', { ttl: 2 })
    await stage.queue('two')
    await stage.queue('three')
    await stage.pass(3)
    await stage.standsWaiting('three')
    await stage.standsHeld('two')
  })

  fact('a dead waiter blocks only for what is left of its ttl', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('dead', { ttl: 3 })
    await stage.queue('alive')
    await stage.pass(2)
    await stage.release('one')
    await stage.standsWaiting('alive')
    await stage.pass(2)
    await stage.standsHeld('alive')
  })

  fact('a waiter that died before its turn is passed over', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('dead', { ttl: 2 })
    await stage.queue('alive')
    await stage.pass(3)
    await stage.release('one')
    await stage.standsHeld('alive')
    expect(await stage.renew('dead')).toMatchObject({ state: 'absent' })
  })

  fact('a waiter ends on the instant, and counts no more for those behind it', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('dead', { ttl: 3 })
    await stage.queue('alive')
    await stage.passAlmost(3)
    await stage.standsWaiting('dead')
    await stage.passTheRest()
    expect(await stage.status('dead')).toEqual({ state: 'absent', reason: 'expired' })
    expect(await stage.status('alive')).toMatchObject({ state: 'waiting', ahead: 0 })
  })

  fact('a claim that takes the place of a dead waiter is told how many are really ahead', ['queue'], async (stage) => {
    await stage.hold('reader', { ttl: 60 })
    await stage.queue('dead', { ttl: 2 })
    await stage.queue('alive', { ttl: 60 })
    await stage.pass(3)
    expect(await stage.release('dead')).toMatchObject({ state: 'absent' })
    expect((await stage.queue('late')).ahead).toBe(1)
  })

  fact('promotion does not restart a lease', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two', { ttl: 10 })
    await stage.pass(4)
    await stage.release('one')
    stage.expectTicks((await stage.standsHeld('two')).ttlMs, 6)
  })

  fact('renewing keeps a waiter alive and in its place', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two', { ttl: 3 })
    await stage.queue('three')
    await stage.pass(2)
    expect(await stage.renew('two', 5)).toMatchObject({ state: 'waiting', ahead: 0 })
    await stage.pass(3)
    await stage.release('one')
    stage.expectTicks((await stage.standsHeld('two')).ttlMs, 2)
  })

  fact('a waiter knows when the one in its way must be gone', ['queue'], async (stage) => {
    await stage.hold('one', { ttl: 4 })
    const { againMs } = await stage.queue('two', { ttl: 20 })
    stage.expectTicks(againMs, 4)
  })

  fact('waiters of ranges pass those they do not overlap, and no others', ['queue', 'range'], async (stage) => {
    await stage.hold('holder', { range: [0, 100] })
    await stage.queue('wide', { range: [50, 150] })
    await stage.hold('beyond', { range: [150, 200] })
    await stage.queue('behind wide', { range: [120, 130] })
    await stage.release('holder')
    await stage.standsHeld('wide')
    await stage.standsWaiting('behind wide')
    await stage.release('wide')
    await stage.standsHeld('behind wide')
  })

  fact('a waiter for the whole key holds up every range behind it', ['queue', 'range'], async (stage) => {
    await stage.hold('holder', { range: [0, 10] })
    await stage.queue('whole')
    await stage.queue('elsewhere', { range: [500, 510] })
    await stage.release('holder')
    await stage.standsHeld('whole')
    await stage.release('whole')
    await stage.standsHeld('elsewhere')
  })

  fact('one release lets in everybody it makes room for', ['queue', 'range'], async (stage) => {
    await stage.hold('whole')
    await stage.queue('left', { range: [0, 10] })
    await stage.queue('right', { range: [10, 20] })
    await stage.queue('left again', { range: [0, 1] })
    await stage.release('whole')
    await stage.standsHeld('left')
    await stage.standsHeld('right')
    await stage.standsWaiting('left again')
  })

  fact('two hundred waiters are served in their order', ['queue'], async (stage) => {
    const names = Array.from({ length: 200 }, (_, index) => `waiter ${index}`)
    await stage.first.send(names.map((name) => ({ op: 'claim', claim: stage.draft(name, { ttl: 60 }) })))
    const waiting = (await stage.listed()).map(({ id }) => stage.nameOf(id))
    expect(waiting).toEqual(names)
    await stage.release('waiter 0')
    await stage.standsHeld('waiter 1')
  })
}

/** Expects the first claim to hold; releases the claims one by one and expects each next one to be granted. */
async function expectServed(stage: Stage, names: readonly string[]): Promise<void> {
  for (const [index, name] of names.entries()) {
    await stage.standsHeld(name)
    for (const later of names.slice(index + 1)) await stage.standsWaiting(later)
    await stage.release(name)
  }
}

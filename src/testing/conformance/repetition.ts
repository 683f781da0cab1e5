import { expect } from '../vitest.ts'
import type { Fact } from './fact.ts'

/** A claim's id makes every call safe to send twice. */
export function repetition(fact: Fact): void {
  fact('a claim sent twice is one claim with one fence', [], async (stage) => {
    const { fence } = await stage.hold('one')
    expect((await stage.standsHeld('one')).fence).toBe(fence)
    expect(await stage.listed()).toHaveLength(1)
    await stage.release('one')
    await stage.hold('two')
  })

  fact('a claim sent twice does not restart its lease', [], async (stage) => {
    await stage.hold('one', { ttl: 10 })
    await stage.pass(4)
    stage.expectTicks((await stage.standsHeld('one')).ttlMs, 6)
  })

  fact('a waiting claim sent twice keeps its one place', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two')
    await stage.queue('three')
    expect(await stage.status('two')).toMatchObject({ state: 'waiting', ahead: 0 })
    expect(await stage.listed()).toHaveLength(3)
  })

  fact('a claim sent again after its grant was missed tells of the grant', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two')
    await stage.release('one')
    const { fence } = await stage.standsHeld('two')
    expect((await stage.standsHeld('two')).fence).toBe(fence)
  })

  fact('a release sent twice harms nobody', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two')
    await stage.queue('three')
    expect(await stage.release('one')).toEqual({ state: 'absent', reason: 'released' })
    expect(await stage.release('one')).toMatchObject({ state: 'absent' })
    await stage.standsHeld('two')
    await stage.standsWaiting('three')
  })

  fact('a release before expiry says so, and after it does not', [], async (stage) => {
    await stage.hold('one', { ttl: 3 })
    expect(await stage.release('one')).toEqual({ state: 'absent', reason: 'released' })
    await stage.hold('two', { ttl: 2 })
    await stage.pass(3)
    const released = await stage.release('two')
    expect(['expired', 'unknown']).toContain(released.state === 'absent' && released.reason)
  })

  fact('a renewal after the release brings nothing back', [], async (stage) => {
    await stage.hold('one')
    await stage.release('one')
    expect(await stage.renew('one')).toMatchObject({ state: 'absent' })
    await stage.hold('two')
  })

  fact('renewing or releasing what never was answers unknown', [], async (stage) => {
    stage.draft('never sent')
    expect(await stage.renew('never sent')).toEqual({ state: 'absent', reason: 'unknown' })
    expect(await stage.release('never sent')).toEqual({ state: 'absent', reason: 'unknown' })
  })

  fact('a refused claim leaves nothing behind', [], async (stage) => {
    await stage.hold('one')
    await stage.refused('two')
    expect(await stage.renew('two')).toMatchObject({ state: 'absent' })
    expect(await stage.listed()).toHaveLength(1)
  })

  fact('an ended claim is not begun anew while its end is remembered', ['evict'], async (stage) => {
    const { fence } = await stage.hold('one')
    await stage.evict(fence)
    expect(await stage.status('one')).toMatchObject({ state: 'absent', reason: 'evicted' })
    await stage.hold('two')
  })

  fact('a late copy of an expired waiter is not begun anew', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two', { ttl: 2 })
    await stage.pass(3)
    expect(await stage.status('two')).toEqual({ state: 'absent', reason: 'expired' })
  })

  fact('an id of one key says nothing of another', [], async (stage) => {
    await stage.hold('one')
    await stage.hold('two', { key: 'stage/named:other' })
    const claim = { ...stage.draft('one'), key: 'stage/named:other', wait: false }
    const { key, id } = claim
    expect(await stage.ask('one', { op: 'claim', claim })).toEqual({ state: 'absent', reason: 'refused' })
    const unknown = { state: 'absent', reason: expect.stringMatching(/^unknown$|^refused$/) }
    expect(await stage.ask('one', { op: 'renew', key, id, ttlMs: stage.ms(30) })).toMatchObject(unknown)
    // A store without a queue may refuse to withdraw anything.
    expect(await stage.ask('one', { op: 'withdraw', key, id })).not.toMatchObject({ state: 'held' })
    expect(await stage.ask('one', { op: 'release', key, id })).toMatchObject(unknown)
    const driver = await stage.anotherDriver()
    const elsewhere = await driver.send([
      { op: 'renew', key, id, ttlMs: stage.ms(30) },
      { op: 'release', key, id },
    ])
    expect(elsewhere).toMatchObject([unknown, unknown])
    await stage.standsHeld('one')
    await stage.standsHeld('two')
    expect(await stage.release('one')).toEqual({ state: 'absent', reason: 'released' })
    await stage.hold('three')
  })

  fact('a waiter is reached by its own key only', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two')
    const id = stage.id('two')
    const unknown = { state: 'absent', reason: expect.stringMatching(/^unknown$|^refused$/) }
    // Once while nothing is stored of the other key, and once while there is.
    for (const key of ['stage/named:free', 'stage/named:other']) {
      if (key === 'stage/named:other') await stage.hold('three', { key })
      for (const op of ['withdraw', 'release'] as const) {
        expect(await stage.ask('two', { op, key, id })).toMatchObject(unknown)
      }
      expect(await stage.ask('two', { op: 'renew', key, id, ttlMs: stage.ms(30) })).toMatchObject(unknown)
    }
    expect(await stage.status('two')).toMatchObject({ state: 'waiting' })
    await stage.release('one')
    await stage.standsHeld('two')
  })

  fact('a fence of one key evicts nobody by another', ['evict'], async (stage) => {
    const { fence } = await stage.hold('one')
    const reason = 'a fence of another key'
    const [status] = await stage.first.send([{ op: 'evict', key: 'stage/named:free', fence, reason }])
    expect(status).toMatchObject({ state: 'absent', reason: expect.not.stringMatching(/^evicted$/) })
    await stage.standsHeld('one')
  })

  fact('a claim replaces no claim of another key', ['convert', 'shared'], async (stage) => {
    await stage.hold('one', { mode: 'shared' })
    await stage.claim('two', { key: 'stage/named:other', replaces: 'one', wait: false })
    await stage.standsHeld('one')
  })

  fact('the id alone ends a claim: another driver may release it', [], async (stage) => {
    await stage.hold('one')
    const driver = await stage.anotherDriver()
    const [status] = await driver.send([{ op: 'release', key: stage.key, id: stage.id('one') }])
    expect(status).toEqual({ state: 'absent', reason: 'released' })
    await stage.hold('two')
  })
}

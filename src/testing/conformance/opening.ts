import { expect } from '../vitest.ts'
import type { Claim, LockDriver } from '../../core/contract/driver.ts'
import type { Fact } from './fact.ts'

/** Drivers open and close repeatedly, and report what they support. */
export function opening(fact: Fact): void {
  fact('a driver says its name and what it can do', [], async (stage) => {
    const { name, supports } = stage.first
    expect(name).toMatch(/^[a-z][a-z0-9-]*$/)
    expect(supports.ttlMinMs).toBeGreaterThan(0)
    expect(supports.ttlMaxMs).toBeGreaterThanOrEqual(supports.ttlMinMs)
    expect(supports.push).toBe(stage.first.listen !== undefined)
    expect(stage.ms(1), 'the tick of the harness is too short').toBeGreaterThanOrEqual(supports.ttlMinMs)
  })

  fact('a driver that says for how long its store has kept its data never says for ever', [], async (stage) => {
    for (const driver of [stage.first, stage.second]) {
      // The age must be finite, since any store may be emptied: a store of infinite age would vote in a quorum right after that.
      const dataAgeMs = (await driver.dataAgeMs?.()) ?? 0
      expect(dataAgeMs).toBeGreaterThanOrEqual(0)
      expect(dataAgeMs).toBeLessThan(Infinity)
    }
  })

  fact('opening again changes nothing', [], async (stage) => {
    await stage.hold('one')
    await stage.first.open()
    await Promise.all([stage.first.open(), stage.second.open()])
    await stage.standsHeld('one')
    await stage.refused('two')
  })

  fact('closing leaves the claims as they are', [], async (stage) => {
    await stage.hold('one')
    const driver = await stage.anotherDriver()
    await driver.close()
    await driver.close()
    await stage.standsHeld('one')
  })

  fact('a claim outlives the driver that made it, until its ttl is over', [], async (stage) => {
    const driver = await stage.anotherDriver()
    await driver.send([{ op: 'claim', claim: stage.draft('one', { ttl: 4 }) }])
    await driver.close()
    await stage.refused('two')
    await stage.pass(5)
    await stage.hold('three')
  })

  fact('a closed driver refuses', [], async (stage) => {
    const driver = await stage.anotherDriver()
    await driver.close()
    await expect(driver.send([{ op: 'claim', claim: stage.draft('one') }])).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(driver.list({})).rejects.toMatchObject({ code: 'CLOSED' })
  })

  fact('what a driver does not support it refuses and never imitates', [], async (stage) => {
    const { supports } = stage.first
    const wishes: [boolean, Claim][] = [
      [supports.shared, stage.draft('shared', { mode: 'shared', wait: false })],
      [supports.limit, stage.draft('limit', { mode: 'shared', limit: 2, wait: false })],
      [supports.range, stage.draft('range', { range: [0, 10], wait: false })],
      [supports.maxHold, stage.draft('longest hold', { maxHold: 5, wait: false })],
      [supports.grace, stage.draft('grace', { grace: 5, wait: false })],
      [supports.evict.includes('all'), stage.draft('force', { evict: 'all', wait: false })],
    ]
    for (const [supported, claim] of wishes) if (!supported) await expectRefused(stage.first, claim)
  })
}

/** A driver may refuse by a rejection, by `unknown` with the error, or by `absent`; the claim must not enter the key. */
async function expectRefused(driver: LockDriver, claim: Claim): Promise<void> {
  let state: string | undefined
  try {
    state = (await driver.send([{ op: 'claim', claim }]))[0]?.state
  } catch {
    state = 'rejected'
  }
  expect(['rejected', 'unknown', 'absent']).toContain(state)
}

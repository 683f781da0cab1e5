import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { check } from '../specification/checker.ts'
import { mutants } from '../specification/mutants.ts'
import { clientCheck, crowds, quorumCheck, ruleCheck } from '../specification/scenes.ts'
import { dishonest, dishonestTrace, honest } from '../specification/trace-mutants.ts'
import { simulatedTraces } from '../specification/simulated-traces.ts'
import { recordTrace, refusedStep, type Trace } from '../specification/traces.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'

// `npm run prove -- spec` explores more claims, more calls and more restarts, to the end.
describe('the specification keeps every promise', () => {
  test('of the rule', () => {
    expect(check(ruleCheck(crowds['a writer, a reader, and an urgent writer'], 3))).toMatchObject({ outcome: 'kept' })
  })

  test('of a client', () => {
    expect(check({ ...clientCheck(2), statesMax: 2000 })).toMatchObject({ outcome: 'bound' })
  })

  test('of a quorum', () => {
    expect(check({ ...quorumCheck(1), statesMax: 2000 })).toMatchObject({ outcome: 'bound' })
  })
})

describe('the invariants of the specification find', () => {
  // Those of the quorum take longer: `npm run prove -- spec` runs all.
  test.each(mutants.filter(({ check: { module } }) => module !== 'Quorum'))(
    '$fault',
    ({ from, to, check: checked, breaks }) => {
      const { outcome, message } = check({ ...checked, statesMax: 10_000, plant: { from, to } })
      expect(outcome).toBe('broken')
      expect(breaks).toContain(message)
    },
  )
})

describe('a trace', () => {
  test('of a store that keeps the rule is allowed', () => {
    expect(refusedStep(honest)).toBeUndefined()
  })

  test.each(Object.entries(dishonest))('with %s is refused', (_, [step, answer]) => {
    expect(refusedStep(dishonestTrace(step, answer))).toBe(step)
  })
})

describe('the specification allows what was recorded of', () => {
  let time = 5_000
  const clock = { now: () => time, wall: () => 1_700_000_000_000 + time }
  const advance = async (ms: number): Promise<void> => void (time += ms)

  async function refused(driver: LockDriver, firstSeed: number): Promise<unknown[]> {
    const found: unknown[] = []
    for (let seed = firstSeed; seed < firstSeed + 40; seed += 1) {
      const trace = await recordTrace({ driver, advance }, seed, 25)
      const step = refusedStep(trace)
      if (step !== undefined) found.push({ seed, step })
    }
    return found
  }

  test('the memory store', async () => {
    const driver = memory({ name: 'specification', clock })
    await driver.open()
    expect(await refused(driver, 1)).toEqual([])
    await driver.close()
  })

  test('the SQLite store', async () => {
    const folder = makeFolder('specification')
    const driver = sqlite({ file: path.join(folder, 'locks.sqlite'), environment: { clock } })
    await driver.open()
    expect(await refused(driver, 1001)).toEqual([])
    await driver.close()
    removeFolder(folder)
  })

  test('the memory store, under clients whose network loses, delays and repeats', async () => {
    const traces: Trace[] = []
    for (let seed = 1; seed <= 4; seed += 1) traces.push(...(await simulatedTraces(seed)))
    expect(traces.length).toBeGreaterThan(8)
    const states = traces.flatMap(({ steps }) => steps.map(({ state }) => state))
    expect(new Set(states)).toEqual(new Set(['held', 'waiting', 'absent']))
    expect(traces.map(refusedStep).filter((step) => step !== undefined)).toEqual([])
    // And nothing else: a waiter that is told that it holds is refused at that step.
    const trace = traces.find(({ steps }) => steps.some(({ state }) => state === 'waiting')) as Trace
    const place = trace.steps.findIndex(({ state }) => state === 'waiting')
    const barging = trace.steps.map((step, index) =>
      index === place ? { ...step, state: 'held' as const, fence: 1_000_000 } : step,
    )
    expect(refusedStep({ ...trace, steps: barging })).toBe(place + 1)
  })
})

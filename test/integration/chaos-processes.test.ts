/** Faults from a seed on real stores: a short slice of `npm run prove -- chaos`. */
import { describe, expect, onTestFinished, test } from 'vitest'
import { chaos } from '../../prove/chaos/run.ts'
import { chaosStores } from '../../prove/chaos/stores.ts'

const roundMs = 10_000
/** A slow machine may not come to an update in one round. */
const roundsMax = 4
/** A machine with other work is late by seconds; the proof itself wants the ttl and two seconds. */
const servedWithinMs = 15_000
/** Between two turns: the slice is to leave the processor to other tests. */
const paceMs = 100
const processes = 4

describe('clients that are killed and stopped, cut off and without descriptors, and a store that fails', () => {
  test.each([
    ['sqlite', 3],
    ['redis', 1],
    ['postgres', 1],
  ])(
    'lose no update with a fence and some without; nobody is forgotten, and nothing is left: %s',
    async (name, seed) => {
      const store = await chaosStores[name]?.(seed)
      if (store === undefined) throw new Error(`There is no store ${name}.`)
      onTestFinished(() => store.stop())
      const outcome = await chaos(store, { seed, rounds: roundsMax, roundMs, endsWhenShown: true, paceMs, processes })
      expect(outcome.violations.slice(0, 3)).toEqual([])
      expect(outcome.lost.fenced).toBe(0)
      expect(outcome.lost.unfenced).toBeGreaterThanOrEqual(1)
      expect(Math.max(...outcome.servedAfterMs)).toBeLessThan(servedWithinMs)
      expect(outcome.left).toEqual({ timers: 0, sockets: 0, locks: [], other: [] })
      expect(Object.keys(outcome.faults).length).toBeGreaterThanOrEqual(4)
    },
  )
})

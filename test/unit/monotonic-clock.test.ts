import { expect, test, vi } from 'vitest'
import { machineClock } from '../../src/core/machine/machine-clock.ts'

const machine = machineClock()
const machineMs = (): number => machine.monotonicMs()

test("the monotonic clock is the machine's, to well under a millisecond, in whatever moment it was started", async () => {
  for (let start = 0; start < 100; start += 1) {
    vi.resetModules()
    const { monotonicMs } = await import('../../src/core/machine/machine-clock.ts')
    // Other work on the machine may come between two readings: the closest of a few counts.
    const offBy = Array.from({ length: 20 }, () => {
      const before = machineMs()
      const now = monotonicMs()
      const after = machineMs()
      return Math.max(0, before - now, now - after)
    })
    expect(Math.min(...offBy)).toBeLessThan(0.2)
  }
})

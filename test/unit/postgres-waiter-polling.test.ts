import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { WaiterPolling } from '../../src/drivers/postgres/waiter-polling.ts'

beforeEach(() => {
  vi.useFakeTimers()
  vi.spyOn(Math, 'random').mockReturnValue(0.5)
})
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

/** A polling, its gaps so far, and the ears of its driver. */
function pollingOf(): { polling: WaiterPolling; ears: { hear: boolean }; gaps: () => number } {
  let gaps = 0
  const ears = { hear: false }
  const polling = new WaiterPolling(
    () => !ears.hear,
    () => (gaps += 1),
  )
  return { polling, ears, gaps: () => gaps }
}

/** Runs the time, and gives the pauses between the gaps that were reported meanwhile. */
async function pausesWithin(milliseconds: number, gaps: () => number): Promise<number[]> {
  const pauses: number[] = []
  let [before, since] = [gaps(), 0]
  for (let time = 1; time <= milliseconds; time += 1) {
    await vi.advanceTimersByTimeAsync(1)
    if (gaps() === before) continue
    pauses.push(time - since)
    ;[before, since] = [gaps(), time]
  }
  return pauses
}

test('gaps are reported with pauses that grow from 20 to 800 ms', async () => {
  const { polling, gaps } = pollingOf()
  polling.answered(1, 60_000, true)
  const pauses = await pausesWithin(10_000, gaps)
  expect(pauses[0]).toBe(20)
  expect(pauses).toEqual(pauses.toSorted((a, b) => a - b))
  expect(pauses.at(-1)).toBe(800)
  polling.close()
  expect(await pausesWithin(2000, gaps)).toEqual([])
})

test('a claim that begins to wait is polled soon, and claims that come all the time do not put that off', async () => {
  const { polling, gaps } = pollingOf()
  polling.answered(1, 60_000, true)
  await vi.advanceTimersByTimeAsync(10_000)
  const before = gaps()
  for (let claim = 0; claim < 50; claim += 1) {
    polling.answered(1, 60_000, true)
    await vi.advanceTimersByTimeAsync(4)
  }
  expect(gaps() - before).toBeGreaterThanOrEqual(5)
})

test('a crowd polls less often, though new claims come all the time', async () => {
  const { polling, gaps } = pollingOf()
  polling.answered(900, 60_000, true)
  for (let turn = 0; turn < 200; turn += 1) {
    const before = gaps()
    await vi.advanceTimersByTimeAsync(20)
    // Each gap makes all claims poll.
    polling.answered(gaps() > before ? 901 : 1, 60_000, true)
  }
  expect(gaps()).toBeGreaterThanOrEqual(4)
  expect(gaps()).toBeLessThanOrEqual(6)
})

test('nothing is reported once the ttl of the last answer has passed', async () => {
  const { polling, gaps } = pollingOf()
  polling.answered(1, 500, true)
  await vi.advanceTimersByTimeAsync(400)
  polling.answered(1, 500, false)
  const before = gaps()
  await vi.advanceTimersByTimeAsync(499)
  expect(gaps()).toBeGreaterThan(before)
  expect(polling.mayWait).toBe(true)
  await vi.advanceTimersByTimeAsync(1)
  expect(polling.mayWait).toBe(false)
  await vi.advanceTimersByTimeAsync(800)
  expect(await pausesWithin(5000, gaps)).toEqual([])
  polling.answered(1, 500, false)
  expect(await pausesWithin(400, gaps)).not.toEqual([])
})

test('nothing is reported while notifications arrive', async () => {
  const { polling, ears, gaps } = pollingOf()
  ears.hear = true
  polling.answered(1, 60_000, true)
  expect(await pausesWithin(2000, gaps)).toEqual([])
  ears.hear = false
  polling.restart()
  expect((await pausesWithin(100, gaps))[0]).toBe(20)
  ears.hear = true
  expect(await pausesWithin(2000, gaps)).toEqual([])
})

test('an answer that arrives after closing starts no timer', () => {
  const { polling } = pollingOf()
  polling.close()
  polling.answered(1, 60_000, true)
  expect(vi.getTimerCount()).toBe(0)
  expect(polling.mayWait).toBe(false)
})

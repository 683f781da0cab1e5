import { describe, expect, test } from 'vitest'
import { trustedUntil } from '../../src/core/time/deadline.ts'
import { sleepProofClock, systemEnvironment } from '../../src/core/time/environment.ts'

describe('the clock', () => {
  /** Three clocks that agree until one is moved. */
  function machine() {
    const time = { awake: 1000, up: 5000, wall: 1_700_000_000_000 }
    let readings = 0
    const clocks = {
      monotonic: () => time.awake,
      uptime: () => {
        readings += 1
        return time.up
      },
      wall: () => time.wall,
    }
    return {
      time,
      now: sleepProofClock(clocks, 4000),
      pass: (milliseconds: number) => {
        time.awake += milliseconds
        time.up += milliseconds
        time.wall += milliseconds
      },
      sleep: (milliseconds: number) => {
        time.up += milliseconds
        time.wall += milliseconds
      },
      get readings() {
        return readings
      },
    }
  }

  test('counts the time a machine was asleep, which the monotonic clock does not, within a few milliseconds', () => {
    const { now, pass, sleep } = machine()
    const before = now()
    pass(40)
    sleep(60_000)
    expect(now() - before).toBe(60_040)
    pass(3)
    sleep(1000)
    pass(3)
    expect(now() - before).toBe(61_046)
  })

  test.each([
    { by: 'as much, soon after', setBackMs: 60_000, afterMs: 101 },
    { by: 'more, at once', setBackMs: 100_000, afterMs: 6 },
  ])('counts a sleep in which the wall clock was set back by $by', ({ setBackMs, afterMs }) => {
    const { now, pass, sleep, time } = machine()
    const before = now()
    sleep(60_000)
    time.wall -= setBackMs
    pass(afterMs)
    expect(now() - before).toBe(60_000 + afterMs)
  })

  test.each([-3_600_000, 3_600_000])(
    'counts a sleep where the wall clock stands in for the uptime, also after it was set by %d ms and back',
    (set) => {
      const { time, pass, sleep } = machine()
      const now = sleepProofClock(
        { monotonic: () => time.awake, uptime: () => time.wall, wall: () => time.wall },
        time.wall - time.awake,
      )
      for (const by of [set, -set]) {
        time.wall += by
        pass(200)
        const before = now()
        sleep(60_000)
        pass(10)
        expect(now() - before).toBe(60_010)
      }
    },
  )

  test('does not count what the wall clock was set by', () => {
    const { now, pass, time } = machine()
    const before = now()
    for (const set of [3_600_000, -7_200_000]) {
      time.wall += set
      pass(10)
    }
    expect(now() - before).toBe(20)
  })

  test('reads the uptime, which is slow, a few times a second', () => {
    const clock = machine()
    for (let turn = 0; turn < 10_000; turn += 1) {
      clock.pass(0.1)
      clock.now()
    }
    expect(clock.readings).toBeLessThanOrEqual(11)
  })

  test('never goes back, whatever the uptime says', () => {
    const { now, pass, sleep, time } = machine()
    pass(100)
    sleep(1000)
    const slept = now()
    pass(110)
    time.up -= 3000
    expect(now()).toBe(slept + 110)
  })

  test('is the same for two that are started in the same process', () => {
    const one = systemEnvironment()
    const other = systemEnvironment()
    // Other work on the machine may come between two readings: the closest of a few counts.
    const offBy = Array.from({ length: 20 }, () => Math.abs(one.now() - other.now()))
    expect(Math.min(...offBy)).toBeLessThan(50)
  })
})

describe('the deadline', () => {
  test('counts from before the request was sent, less five in a hundred', () => {
    expect(trustedUntil(1000, 30_000)).toBe(1000 + 30_000 - 1500 - 2)
  })

  test('is a whole millisecond, and never a later one for being rounded', () => {
    expect(trustedUntil(1000.9, 30_000)).toBe(1000 + 30_000 - 1500 - 2)
    expect(trustedUntil(1000, 10_010)).toBe(Math.floor(1000 + 10_010 - 500.5 - 2))
  })

  test('leaves something of the shortest lease', () => {
    expect(trustedUntil(1000, 2)).toBe(1001)
  })
})

test('ids are unguessable and never repeat', () => {
  const environment = systemEnvironment()
  const ids = Array.from({ length: 2000 }, () => environment.id())
  expect(new Set(ids).size).toBe(2000)
  expect(ids.every((one) => /^[0-9a-f]{32}$/.test(one))).toBe(true)
})

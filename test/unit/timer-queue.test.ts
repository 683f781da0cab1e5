import { describe, expect, test } from 'vitest'
import { TimerQueue, type TimerTask } from '../../src/core/time/timer-queue.ts'
import { fakeTime } from '../../src/testing/fake-time.ts'
import { seededRandom } from '../../src/testing/random.ts'

class Dreamer implements TimerTask {
  timerSlot = -1
  readonly #woken: (dreamer: Dreamer, now: number) => void

  constructor(woken: (dreamer: Dreamer, now: number) => void) {
    this.#woken = woken
  }

  wake(now: number): void {
    this.#woken(this, now)
  }
}

describe('the alarm', () => {
  test('wakes thousands in order with a single timer', async () => {
    const time = fakeTime()
    const timers = new TimerQueue(time.environment)
    const random = seededRandom(7)
    const start = time.environment.now()
    const woken: number[] = []
    for (let index = 0; index < 5000; index += 1) {
      const at = start + Math.floor(random() * 10_000)
      timers.set(new Dreamer(() => woken.push(at)), at)
    }
    expect(time.timers).toBe(1)
    await time.advance(10_000)
    expect(woken).toHaveLength(5000)
    expect(woken).toEqual(woken.toSorted((one, other) => one - other))
    expect(time.timers).toBe(0)
  })

  test('wakes those of one millisecond in the order in which they asked, and none that was taken out', async () => {
    const time = fakeTime()
    const timers = new TimerQueue(time.environment)
    const at = time.environment.now() + 50
    const woken: number[] = []
    const dreamers: Dreamer[] = []
    for (let index = 0; index < 6; index += 1) {
      dreamers.push(
        new Dreamer((dreamer) => {
          woken.push(index)
          if (index === 1)
            for (const [place, other] of dreamers.entries()) if (place % 3 === 0) timers.set(other, Infinity)
          // Again at once: still in the same ringing, behind all others.
          if (index === 2 && woken.length < 6) timers.set(dreamer, at)
        }),
      )
    }
    for (const dreamer of dreamers) timers.set(dreamer, at)
    await time.advance(50)
    // The last one took the place of the one that was taken out.
    expect(woken).toEqual([0, 1, 2, 5, 4, 2])
    expect([timers.tasks, time.timers]).toEqual([0, 0])
  })

  test('forgets all when one of those it wakes has it cleared', async () => {
    const time = fakeTime()
    const timers = new TimerQueue(time.environment)
    const at = time.environment.now() + 50
    const woken: number[] = []
    for (let index = 0; index < 3; index += 1) {
      const wake = (): void => {
        woken.push(index)
        if (index === 1) timers.clear()
      }
      timers.set(new Dreamer(wake), at)
    }
    timers.set(new Dreamer(() => woken.push(9)), at + 10)
    await time.advance(100)
    expect(woken).toEqual([0, 1])
    expect([timers.tasks, time.timers]).toEqual([0, 0])
  })

  test('leaves the event loop room when waking takes long, and wakes everybody in order all the same', async () => {
    const time = fakeTime()
    let spentMs = 0
    const start = time.environment.now()
    const timers = new TimerQueue({
      ...time.environment,
      now: () => time.environment.now() + spentMs,
      timer: (delayMs, action) =>
        time.environment.timer(delayMs, () => {
          turn += 1
          action()
        }),
    })
    const woken: number[] = []
    let turn = 0
    const perTurn = new Map<number, number>()
    for (let index = 0; index < 2000; index += 1) {
      const dreamer = new Dreamer(() => {
        woken.push(index)
        spentMs += 0.1
        perTurn.set(turn, (perTurn.get(turn) ?? 0) + 1)
      })
      timers.set(dreamer, start + (index < 1000 ? 50 : 51))
    }
    await time.advance(100)
    expect(woken).toEqual(Array.from({ length: 2000 }, (_, index) => index))
    // A tenth of a millisecond each: a turn is over after 10 ms, and is timed every 128 tasks.
    expect(Math.max(...perTurn.values())).toBeLessThanOrEqual(256)
    expect([timers.tasks, time.timers]).toEqual([0, 0])
  })

  test('can be set earlier, later and off', async () => {
    const time = fakeTime()
    const timers = new TimerQueue(time.environment)
    const start = time.environment.now()
    const woken: string[] = []
    const dreamer = (name: string) => new Dreamer((_, now) => woken.push(`${name} at ${now - start}`))
    const [early, late, off] = [dreamer('early'), dreamer('late'), dreamer('off')]
    for (const one of [early, late, off]) timers.set(one, start + 50)
    timers.set(early, start + 10)
    timers.set(late, start + 90)
    timers.set(off, Infinity)
    await time.advance(200)
    expect(woken).toEqual(['early at 10', 'late at 90'])
  })

  test('wakes everybody on time under thousands of random changes', async () => {
    const time = fakeTime()
    const timers = new TimerQueue(time.environment)
    const random = seededRandom(11)
    const start = time.environment.now()
    const due = new Map<Dreamer, number>()
    const dreamers = Array.from(
      { length: 200 },
      () =>
        new Dreamer((dreamer, now) => {
          expect(now).toBe(due.get(dreamer))
          due.delete(dreamer)
        }),
    )
    for (let round = 0; round < 5000; round += 1) {
      const dreamer = dreamers[Math.floor(random() * dreamers.length)]
      if (dreamer === undefined) continue
      const at = random() < 0.2 ? Infinity : time.environment.now() + Math.floor(random() * 100)
      if (at === Infinity) due.delete(dreamer)
      else due.set(dreamer, at)
      timers.set(dreamer, at)
      if (round % 50 === 0) await time.advance(10)
    }
    await time.advance(200)
    expect(due.size).toBe(0)
    expect([timers.tasks, time.timers]).toEqual([0, 0])
    expect(time.environment.now()).toBe(start + 100 * 10 + 200)
  })
})

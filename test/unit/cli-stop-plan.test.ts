import { describe, expect, test } from 'vitest'
import { LeaseWatch, stopPlan } from '../../src/cli/supervise/lease-watch.ts'

describe('the plan', () => {
  test('asks a command to end so early that it has its time, and ends it while lease time is left', () => {
    const plan = stopPlan(28_000, { ttlMs: 30_000, killAfterMs: 5000 })
    expect(plan).toEqual({ terminateInMs: 22_000, killInMs: 27_000 })
  })

  test('leaves a lease alone until less than a third of it is left, however short it is', () => {
    for (const ttlMs of [30, 300, 3000, 10_000]) {
      const { terminateInMs, killInMs } = stopPlan(ttlMs / 3, { ttlMs, killAfterMs: 60_000 })
      expect(terminateInMs).toBeGreaterThan(0)
      expect(killInMs).toBeGreaterThan(terminateInMs)
      expect(killInMs).toBeLessThan(ttlMs / 3)
    }
  })

  test('does not ask first if there is no time to wait for an answer', () => {
    const { terminateInMs, killInMs } = stopPlan(5000, { ttlMs: 30_000, killAfterMs: 0 })
    expect(killInMs).toBe(terminateInMs)
  })

  test('stops at once a holder that has to leave, within the time it has', () => {
    const terms = { ttlMs: 30_000, killAfterMs: 5000 }
    expect(stopPlan(28_000, terms, true)).toEqual({ terminateInMs: 0, killInMs: 5000 })
    expect(stopPlan(3000, terms, true)).toEqual({ terminateInMs: 0, killInMs: 2000 })
  })

  test('kills at once when the lease is over', () => {
    const terms = { ttlMs: 30_000, killAfterMs: 5000 }
    expect(stopPlan(0, terms)).toEqual({ terminateInMs: 0, killInMs: 0 })
    expect(stopPlan(0, terms, true)).toEqual({ terminateInMs: 0, killInMs: 0 })
  })
})

/** A lease, a clock and a command that only notes what it is sent. */
class Scene {
  nowMs = 0
  endsAtMs = 28_000
  isTaken = false
  isLossTold = false
  readonly sent: string[] = []
  #timers: { at: number; action: () => void }[] = []
  readonly watch: LeaseWatch

  constructor(killAfterMs = 5000) {
    // oxlint-disable-next-line no-this-alias -- for the getters below
    const scene = this
    this.watch = new LeaseWatch({
      lease: {
        get held() {
          const isHeld = !scene.isTaken && scene.nowMs < scene.endsAtMs
          // As a lease does: looking at it brings out that it is lost.
          if (!isHeld && !scene.isLossTold) {
            scene.isLossTold = true
            scene.watch.leave('lost')
          }
          return isHeld
        },
        get remainingMs() {
          return Math.max(0, scene.endsAtMs - scene.nowMs)
        },
      },
      ttlMs: 30_000,
      killAfterMs,
      environment: { now: () => this.nowMs, timer: (delayMs, action) => this.#set(delayMs, action) },
      signal: (name) => this.sent.push(`${this.nowMs} ${name}`),
      say: () => {},
    })
  }

  /** Lets time pass, with every timer in its turn. */
  pass(milliseconds: number): void {
    const until = this.nowMs + milliseconds
    for (let next = this.#next(until); next !== undefined; next = this.#next(until)) {
      this.#timers = this.#timers.filter((timer) => timer !== next)
      this.nowMs = Math.max(this.nowMs, next.at)
      next.action()
    }
    this.nowMs = until
  }

  #next(until: number): { at: number; action: () => void } | undefined {
    return this.#timers.filter(({ at }) => at <= until).toSorted((one, other) => one.at - other.at)[0]
  }

  #set(delayMs: number, action: () => void) {
    const timer = { at: this.nowMs + delayMs, action }
    this.#timers.push(timer)
    return { cancel: () => void (this.#timers = this.#timers.filter((each) => each !== timer)), keepAlive: () => {} }
  }
}

describe('the watch', () => {
  test('stops a command whose lease is not renewed before the lease ends', () => {
    const scene = new Scene()
    scene.pass(21_999)
    expect(scene.sent).toEqual([])
    scene.pass(10_000)
    expect(scene.sent).toEqual(['22000 SIGTERM', '27000 SIGKILL'])
    expect(scene.watch.stoppedBecause).toBeDefined()
  })

  test('goes on if the lease recovers in time', () => {
    const scene = new Scene()
    scene.pass(20_000)
    scene.endsAtMs = 48_000
    scene.watch.check()
    scene.pass(20_000)
    expect(scene.sent).toEqual([])
  })

  test('does not take back a SIGTERM, and does not prolong the time it gave', () => {
    const scene = new Scene()
    scene.pass(23_000)
    scene.endsAtMs = 90_000
    scene.watch.check()
    scene.pass(10_000)
    expect(scene.sent).toEqual(['22000 SIGTERM', '27000 SIGKILL'])
  })

  test('stops a command at once whose lease was taken away', () => {
    const scene = new Scene()
    scene.pass(1000)
    scene.isTaken = true
    scene.watch.leave('evicted: stuck')
    scene.pass(10_000)
    expect(scene.sent).toEqual(['1000 SIGTERM', '6000 SIGKILL'])
    expect(scene.watch.stoppedBecause).toBe('evicted: stuck')
  })

  test('gives a lease that was taken away no time beyond the end it was told', () => {
    const scene = new Scene(20_000)
    scene.pass(15_000)
    scene.isTaken = true
    scene.watch.leave('evicted')
    scene.pass(20_000)
    expect(scene.sent).toEqual(['15000 SIGTERM', '27000 SIGKILL'])
  })

  test('kills at once after a sleep that was longer than the lease', () => {
    const scene = new Scene()
    scene.pass(500)
    scene.nowMs = 100_000
    scene.pass(0)
    expect(scene.sent).toEqual(['100000 SIGKILL'])
  })

  test('sends nothing once the command has ended', () => {
    const scene = new Scene()
    scene.watch[Symbol.dispose]()
    scene.watch.leave('evicted')
    scene.pass(60_000)
    expect(scene.sent).toEqual([])
  })
})

/** Time for a matrix of compositions: real, or passing only by `advance` while calls go over real connections. */
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { systemEnvironment, type Environment, type Timer } from '../../src/core/time/environment.ts'

export interface MatrixTime {
  /** For one process, whose wall clock is wrong by this much. */
  environment(wallOffMs?: number): Environment
  /** For one store, whose clock is wrong by this much. */
  clock(offMs?: number): { now(): number; wall(): number }
  advance(ms: number): Promise<void>
  /** A driver whose calls are waited for before time passes. */
  follow(driver: LockDriver): LockDriver
  /** Whether a lease can be lost because the machine is slow. */
  readonly isReal: boolean
}

const wallStart = 1_700_000_000_000
/** Far from nought, so that a clock that is an hour behind has seen some time, too. */
const nowStart = 10 * 3_600_000
/** Only a call that hangs takes longer. */
const settlesWithinMs = 20_000

interface Due {
  readonly at: number
  readonly action: () => void
}

/** Time that stands still while any call is under way. */
export function steppedTime(): MatrixTime {
  const start = systemEnvironment()
  let now = nowStart
  let underWay = 0
  const due = new Set<Due>()
  const settled = async (): Promise<void> => {
    const deadline = performance.now() + settlesWithinMs
    // Calls that follow from an answer are sent a few turns later.
    for (let quiet = 0; quiet < 4; quiet = underWay === 0 ? quiet + 1 : 0) {
      await nextTurn()
      if (performance.now() > deadline) throw new Error(`${underWay} calls have not been answered.`)
    }
  }
  const next = (): Due | undefined => [...due].toSorted((a, b) => a.at - b.at)[0]
  return {
    isReal: false,
    environment: (wallOffMs = 0) => ({
      ...start,
      now: () => now,
      wall: () => wallStart + now + wallOffMs,
      timer(delayMs, action): Timer {
        const timer = { at: now + Math.max(0, delayMs), action }
        due.add(timer)
        return { cancel: () => void due.delete(timer), keepAlive: () => {} }
      },
    }),
    clock: (offMs = 0) => ({ now: () => now + offMs, wall: () => wallStart + now + offMs }),
    async advance(ms) {
      const until = now + ms
      await settled()
      for (let first = next(); first !== undefined && first.at <= until; first = next()) {
        due.delete(first)
        now = Math.max(now, first.at)
        first.action()
        await settled()
      }
      now = until
      await settled()
    },
    follow: (driver) =>
      followed(driver, (call) => {
        underWay += 1
        const over = (): void => void (underWay -= 1)
        call.then(over, over)
      }),
  }
}

/** The machine's time. */
export function realTime(): MatrixTime {
  const environment = systemEnvironment()
  return {
    isReal: true,
    environment: (wallOffMs = 0) => ({ ...environment, wall: () => Date.now() + wallOffMs }),
    clock: (offMs = 0) => ({ now: () => environment.now() + offMs, wall: () => Date.now() + offMs }),
    advance: (ms) => pause(ms),
    follow: (driver) => driver,
  }
}

const calls = new Set<string | symbol>(['open', 'send', 'list', 'dataAgeMs', 'close'])

/** The driver, which says of each call that it has begun. All else is the driver's own, as it is at the time. */
function followed(driver: LockDriver, begun: (call: Promise<unknown>) => void): LockDriver {
  return new Proxy(driver, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...given: unknown[]): unknown => {
        const result: unknown = Reflect.apply(value as (...given: unknown[]) => unknown, target, given)
        if (calls.has(name) && result instanceof Promise) begun(result)
        return result
      }
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  })
}

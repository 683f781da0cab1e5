import { randomIds } from '../machine/random-id.ts'
import { timerMaxMs } from './duration.ts'
import { keepAlive, unref, whenRead, deferrer } from './event-loop.ts'
import { monotonicMs, uptimeMs } from '../machine/machine-clock.ts'

/** A timer that fires once. */
export interface Timer {
  cancel(): void
  /** Whether the timer alone keeps the process running. A new timer does not. */
  keepAlive(wanted: boolean): void
}

/**
 * Time, timers and randomness of a client. A simulator passes its own and then controls every source of chance; nothing
 * else in a client reads a clock, sets a timer or draws a random number.
 */
export interface Environment {
  /** Milliseconds that never go back and that count the time a laptop was asleep. */
  now(): number
  /**
   * Milliseconds that never go back and never run ahead, for ending what others hold: sleep is not counted, as how long it was is
   * taken from clocks that can be set. Absent: `now` never runs ahead either.
   */
  awake?(): number
  /** Milliseconds since 1970, for people. */
  wall(): number
  /** Runs `action` once after `delayMs`. */
  timer(delayMs: number, action: () => void): Timer
  /** Runs `action` when everything else of this turn of the event loop has run. */
  defer(action: () => void): void
  /**
   * Runs `action` when all that has arrived by now, e.g. on sockets, has been read and delivered. Absent: nothing is read
   * later than it arrives.
   */
  afterReading?(action: () => void): void
  /** From 0 up to, not including, 1. */
  random(): number
  /** An unguessable name: 128 random bits. */
  id(): string
}

/** How often to check whether the machine has slept, in milliseconds awake. */
const checkEveryMs = 5
/** How often to read the uptime, which opens a file. It is also read when the wall clock shows that we may have slept. */
const uptimeEveryMs = 100
/** If the uptime falls back by more, it was set; by less, it may only be rounded to seconds. */
const setBackMs = 2000

/** The clocks of a machine, in milliseconds. @internal */
export interface Clocks {
  /** Stops while the machine sleeps. */
  readonly monotonic: () => number
  /** Goes on in a sleep. Where the wall clock stands in for the uptime, people may set it. */
  readonly uptime: () => number
  /** Goes on in a sleep, and may be set by people. */
  readonly wall: () => number
}

/**
 * A clock that also counts sleep. The monotonic clock stops while the machine sleeps and the uptime does not, so the
 * growth of the uptime's lead is the sleep. The wall clock is not trusted, as it may be set; but it is cheap to read, and
 * a sleep moves it against the monotonic clock, so it tells when to read the uptime. A sleep during which the wall clock
 * was set back by as much is noticed only when the uptime is next read.
 * @internal
 */
export function sleepProofClock({ monotonic, uptime, wall }: Clocks, leadAtStart: number): () => number {
  let asleepMs = 0
  let checkedAt = -Infinity
  let readAt = -Infinity
  let wallLead = 0
  let leadMs = leadAtStart
  return () => {
    const awakeMs = monotonic()
    if (awakeMs - checkedAt <= checkEveryMs) return awakeMs + asleepMs
    checkedAt = awakeMs
    const wallLeadNow = wall() - awakeMs
    if (awakeMs - readAt > uptimeEveryMs || Math.abs(wallLeadNow - wallLead) > checkEveryMs) {
      readAt = awakeMs
      wallLead = wallLeadNow
      const leadNow = uptime() - awakeMs
      // The uptime was set back: without this, no sleep would be counted until it is longer than that.
      if (leadNow - leadMs < asleepMs - setBackMs) leadMs = leadNow - asleepMs
      asleepMs = Math.max(asleepMs, leadNow - leadMs)
    }
    return awakeMs + asleepMs
  }
}

/** The origin of a client's clock: a second thread must use the same to agree with it. @internal */
export interface ClockStart {
  /** The zero of the clock on the monotonic clock: small numbers take less memory than the time since boot. */
  readonly zeroMs: number
  /** By how much the uptime leads the clock. */
  readonly leadMs: number
}

const zeroMs = Math.floor(monotonicMs())

/** A clock origin of this process, read now. @internal */
export function clockStart(): ClockStart {
  return { zeroMs, leadMs: uptimeMs() - (monotonicMs() - zeroMs) }
}

/** The environment of this machine. @internal */
export function systemEnvironment(start = clockStart()): Environment {
  const clocks: Clocks = {
    monotonic: () => monotonicMs() - start.zeroMs,
    uptime: uptimeMs,
    wall: () => Date.now(),
  }
  const now = sleepProofClock(clocks, start.leadMs)
  return {
    now,
    awake: clocks.monotonic,
    wall: () => Date.now(),
    timer(delayMs, action) {
      const handle = unref(setTimeout(action, Math.min(Math.max(0, Math.ceil(delayMs)), timerMaxMs)))
      return {
        cancel: () => clearTimeout(handle),
        keepAlive: (wanted) => void keepAlive(handle, wanted),
      }
    },
    defer: deferrer(),
    afterReading: (action) => void whenRead(action),
    random: Math.random,
    id: randomIds(256),
  }
}

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
 * Everything the client takes from its surroundings: time, timers, chance. A simulator passes its own and then owns
 * every source of surprise; nothing else in the core reads a clock, sets a timer or rolls dice.
 */
export interface Environment {
  /** Milliseconds that never go back and that count the time a laptop was asleep. */
  now(): number
  /** Milliseconds since 1970, for people. */
  wall(): number
  /** Runs `action` once after `delayMs`. */
  timer(delayMs: number, action: () => void): Timer
  /** Runs `action` when everything else of this turn of the event loop has run. */
  defer(action: () => void): void
  /**
   * Runs `action` when what has arrived by now, on sockets say, has been read and heard of. Absent: nothing arrives that is
   * read later.
   */
  afterReading?(action: () => void): void
  /** From 0 up to, not including, 1. */
  random(): number
  /** An unguessable name: 128 random bits. */
  id(): string
}

/** Milliseconds awake between two looks for a sleep. */
const lookEveryMs = 5
/** Reading the uptime opens a file. It is read this often, and whenever the wall clock may have slept. */
const uptimeEveryMs = 100
/** An uptime that falls back by more was set: one that comes in whole seconds never does. */
const setBackMs = 2000

/** The clocks of a machine, in milliseconds. @internal */
export interface Clocks {
  /** Stops while the machine sleeps. */
  readonly monotonic: () => number
  /** Goes on in a sleep. Where the wall clock stands in for it, it is set by people as well. */
  readonly uptime: () => number
  /** Goes on in a sleep, and is set by people. */
  readonly wall: () => number
}

/**
 * A clock that also counts sleep. The monotonic clock stops while the machine sleeps and the uptime does not, so the lead
 * of the second is the sleep: a lease is over when either says so. The wall clock has no say, as it may be set. But it
 * costs little to look at, and a sleep always moves it against the monotonic clock, so that it tells when to ask the
 * uptime. Only a sleep during which somebody set it back by as much goes unnoticed, until the uptime is next read.
 * @internal
 */
export function sleepProofClock({ monotonic, uptime, wall }: Clocks, leadAtStart: number): () => number {
  let asleepMs = 0
  let lookedAt = -Infinity
  let readAt = -Infinity
  let wallLead = 0
  let leadMs = leadAtStart
  return () => {
    const awakeMs = monotonic()
    if (awakeMs - lookedAt <= lookEveryMs) return awakeMs + asleepMs
    lookedAt = awakeMs
    const wallLeadNow = wall() - awakeMs
    if (awakeMs - readAt > uptimeEveryMs || Math.abs(wallLeadNow - wallLead) > lookEveryMs) {
      readAt = awakeMs
      wallLead = wallLeadNow
      const leadNow = uptime() - awakeMs
      // Otherwise no sleep would be counted until it is longer than what the uptime was set back by.
      if (leadNow - leadMs < asleepMs - setBackMs) leadMs = leadNow - asleepMs
      asleepMs = Math.max(asleepMs, leadNow - leadMs)
    }
    return awakeMs + asleepMs
  }
}

/** Where the clock of a client begins: a second thread must start from the same to agree with it. @internal */
export interface ClockStart {
  /** What its zero is on the monotonic clock: small numbers are kept in less room than the time since the boot. */
  readonly zeroMs: number
  /** By how much the uptime leads it. */
  readonly leadMs: number
}

const zeroMs = Math.floor(monotonicMs())

/** @internal */
export function clockStart(): ClockStart {
  return { zeroMs, leadMs: uptimeMs() - (monotonicMs() - zeroMs) }
}

/** The real surroundings. @internal */
export function systemEnvironment(start = clockStart()): Environment {
  const clocks: Clocks = {
    monotonic: () => monotonicMs() - start.zeroMs,
    uptime: uptimeMs,
    wall: () => Date.now(),
  }
  const now = sleepProofClock(clocks, start.leadMs)
  return {
    now,
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

/** Turns of the event loop, in runtimes with and without Node's functions for them. */
import { runtime, runtimeProcess } from '../machine/runtime.ts'

type NodeTimer = Partial<Pick<NodeJS.Timeout, 'ref' | 'unref'>>

const immediately: unknown = (globalThis as { readonly setImmediate?: unknown }).setImmediate

/** Runs `action` in the next turn of the event loop, when all that has arrived by now has been read. */
export const inNextTurn: (action: () => void) => void =
  typeof immediately === 'function'
    ? (action) => void setImmediate(action)
    : // A browser and a worker read the network between two timers.
      (action) => void setTimeout(action, 0)

/** An action that has not run yet. */
export interface WhenRead {
  cancel(): void
}

/**
 * Runs `action` when all that has arrived by now, e.g. on sockets, has been read. After a long block of the event loop
 * timers fire before sockets are read.
 */
export function whenRead(action: () => void): WhenRead {
  let isCancelled = false
  const act = (): void => {
    if (!isCancelled) action()
  }
  if (runtime !== 'Deno') inNextTurn(act)
  // Deno reads sockets in another thread: its data comes in a turn of the event loop that no immediate waits for.
  else setTimeout(() => inNextTurn(act), 1)
  return { cancel: () => void (isCancelled = true) }
}

/** Lets the process end although the timer is set. Does nothing where a process does not wait for timers. */
export function unref<Timer extends NodeJS.Timeout>(timer: Timer): Timer {
  return keepAlive(timer, false)
}

/** Sets whether the process must not end while the timer is set. */
export function keepAlive<Timer extends NodeJS.Timeout>(timer: Timer, wanted: boolean): Timer {
  // A browser's timer is a number.
  const { ref, unref: release } = timer as NodeTimer
  if (wanted) ref?.call(timer)
  else release?.call(timer)
  return timer
}

/** The longest turn of the event loop: then timers, signals and the network come first. */
const turnMaxMs = 5
/** How many actions of a turn run before the turn is timed, which costs a little. */
const actionsUnnoticed = 8

/** Kept from when this module was loaded: fake timers of a test would keep every request from being sent. */
const nextTick = runtimeProcess?.nextTick

/** Runs `action` when the micro-tasks are done; without `nextTick`, after those queued now and those they queue. */
const afterMicrotasks: (action: () => void) => void =
  typeof nextTick === 'function'
    ? (action) => nextTick(action)
    : (action) => queueMicrotask(() => queueMicrotask(action))

/**
 * Runs actions when everything else of this turn of the event loop has run. With a store that answers at once, lock after
 * lock could keep a turn going for ever, and no lease would be renewed: after a few milliseconds the next action is left
 * to the next turn.
 */
export function deferrer(now: () => number = () => performance.now()): (action: () => void) => void {
  const settled = Promise.resolve()
  let actions = 0
  let watchedSince: number | undefined
  const turnOver = (): void => {
    actions = 0
    watchedSince = undefined
  }
  return (action) => {
    actions += 1
    if (actions > actionsUnnoticed) {
      if (watchedSince === undefined) {
        watchedSince = now()
        inNextTurn(turnOver)
      } else if (now() - watchedSince > turnMaxMs) return inNextTurn(action)
    }
    // Micro-tasks may make more requests; the next tick comes when they are done. A promise is quicker than queueMicrotask.
    void settled.then(() => afterMicrotasks(action))
  }
}

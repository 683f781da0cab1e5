import { runtimeProcess } from '../machine/builtin.ts'
import { inNextTurn } from './event-loop.ts'

/** A turn of the event loop that takes longer than this is ended: timers, signals and the network have waited enough. */
const turnMaxMs = 5
/** To notice the end of a turn costs a little, so that only every so many actions do. */
const actionsUnnoticed = 8

/** As it was when this was loaded: fake timers of a test take its place, and would keep every call from being sent. */
const nextTick = runtimeProcess?.nextTick

/** Runs `action` when the micro-tasks are done. Where no such queue exists, after those that wait now and those they make. */
const afterMicrotasks: (action: () => void) => void =
  typeof nextTick === 'function'
    ? (action) => nextTick(action)
    : (action) => queueMicrotask(() => queueMicrotask(action))

/**
 * Runs actions when everything else of this turn of the event loop has run. A store that answers without waiting for
 * anything could keep a turn going for ever, one lock after the other, and no lease would be renewed meanwhile: after a
 * few milliseconds the next action is left to the next turn.
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
    // Micro-tasks may ask for more; the next tick comes when they are done. A promise is quicker than queueMicrotask.
    void settled.then(() => afterMicrotasks(action))
  }
}

/** Turns of the event loop, in runtimes that have Node's functions for them and in those that have not. */

type NodeTimer = Partial<Pick<NodeJS.Timeout, 'ref' | 'unref'>>

const immediately: unknown = (globalThis as { readonly setImmediate?: unknown }).setImmediate

/** Runs `action` in the next turn of the event loop, when what has arrived by now has been read. */
export const inNextTurn: (action: () => void) => void =
  typeof immediately === 'function'
    ? (action) => void setImmediate(action)
    : // A browser and a worker read the network between two timers.
      (action) => void setTimeout(action, 0)

/** Lets the process end although the timer is set. Where a process does not wait for timers there is nothing to do. */
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

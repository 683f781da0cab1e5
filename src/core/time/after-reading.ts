import { runtime } from '../machine/runtime.ts'

/** An action that has not run yet. */
export interface WhenRead {
  cancel(): void
}

/**
 * Runs `action` when what has arrived by now, on sockets say, has been read. After a long block of the event loop timers
 * fire before sockets are read.
 */
export function whenRead(action: () => void): WhenRead {
  let immediate: NodeJS.Immediate | undefined
  if (runtime !== 'Deno') {
    immediate = setImmediate(action)
    return { cancel: () => clearImmediate(immediate) }
  }
  // Deno takes what arrives on a socket from another thread, in a turn of the event loop that no immediate waits for.
  const timer = setTimeout(() => {
    immediate = setImmediate(action)
  }, 1)
  return {
    cancel() {
      clearTimeout(timer)
      clearImmediate(immediate)
    },
  }
}

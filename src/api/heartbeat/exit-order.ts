/** A thread that must be out of its store before the process ends it. */
interface ExitingThread {
  /** Asks the thread to close its connection. */
  order(): void
  /** Blocks until the thread has done so, or the time is over. */
  wait(timeoutMs: number): void
}

/** The longest that an exit waits for all threads. Closing a connection takes far less, unless a store hangs. */
const exitWaitMs = 1000

const threads = new Set<ExitingThread>()

/**
 * Gives a thread notice before this process, or the worker this runs in, exits. Node ends a thread wherever it is, and a
 * native module that is just then in the middle of a call may abort the process: `@photostructure/sqlite` does. Dispose
 * once the thread has ended.
 */
export function onExit(thread: ExitingThread): () => void {
  if (threads.size === 0) process.on('exit', stopThreads)
  threads.add(thread)
  return () => {
    threads.delete(thread)
    if (threads.size === 0) process.off('exit', stopThreads)
  }
}

function stopThreads(): void {
  const deadline = performance.now() + exitWaitMs
  for (const thread of threads) thread.order()
  for (const thread of threads) thread.wait(Math.max(0, deadline - performance.now()))
}

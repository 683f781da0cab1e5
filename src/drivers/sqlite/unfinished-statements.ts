import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Closed connections that may wait for the garbage collector at once. Each keeps two descriptors open. */
const closedMax = 64
let closed = 0

/**
 * Call after a connection of `@photostructure/sqlite` was closed. SQLite keeps its files open until its statements have
 * ended, and that package ends a statement only when the garbage collector finds it, which may be never in a program that
 * allocates little. So the collector is called now and then; the statements end in the next turn of the event loop.
 */
export function collectStatements(): void {
  closed += 1
  if (closed < closedMax) return
  closed = 0
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  setFlagsFromString('--no-expose-gc')
  collect()
}

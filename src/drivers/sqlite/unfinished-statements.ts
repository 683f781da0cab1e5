import { readdirSync, readlinkSync, statSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Closed connections that may wait for the garbage collector at once. Each keeps two descriptors open. */
const closedMax = 64
let closed = 0
let isAnyClosed = false

/**
 * Call after a connection of `@photostructure/sqlite` was closed. SQLite keeps its files open until its statements have
 * ended, and that package ends a statement only when the garbage collector finds it, which may be never in a program that
 * allocates little. So the collector is called now and then; the statements end in the next turn of the event loop.
 */
export function collectStatements(): void {
  isAnyClosed = true
  closed += 1
  if (closed >= closedMax) collect()
}

/**
 * Whether closed connections still keep a deleted index of the file's log open: SQLite would make a new connection of this process
 * join them there, apart from all other processes. If so, calls the collector; the next turn of the event loop may find the index
 * closed. Only Linux shows it.
 */
export function keepsDeletedIndex(file: string, logIndex: string): boolean {
  if (!isAnyClosed || process.platform !== 'linux') return false
  const indexes = inodesOpenAs(`${logIndex} (deleted)`)
  // A lock file that was deleted too has an index of its own, which no connection to another file joins.
  if (indexes.size <= inodesOpenAs(`${file} (deleted)`).size) return false
  collect()
  return true
}

/** The numbers of the files that this process has open under a name. */
function inodesOpenAs(name: string): Set<number> {
  const found = new Set<number>()
  for (const descriptor of readdirSync('/proc/self/fd')) {
    try {
      const opened = `/proc/self/fd/${descriptor}`
      if (readlinkSync(opened) === name) found.add(statSync(opened).ino)
    } catch {
      // Closed meanwhile.
    }
  }
  return found
}

function collect(): void {
  closed = 0
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  setFlagsFromString('--no-expose-gc')
  collectGarbage()
}

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
 * Whether connections that were closed keep an index of the file's log open that has been deleted: SQLite would have a new
 * connection of this process join them there, apart from all other processes. If so, the collector is called, and the next
 * turn of the event loop may find it gone. Only Linux tells.
 */
export function keepsDeletedIndex(file: string, logIndex: string): boolean {
  if (!isAnyClosed || process.platform !== 'linux') return false
  const indexes = inodesOpenAs(`${logIndex} (deleted)`)
  // A file that was deleted with its log has an index, too, which no other file is opened with.
  if (indexes.size <= inodesOpenAs(`${file} (deleted)`).size) return false
  collect()
  return true
}

/** The numbers of the files that this process has open under a name. */
function inodesOpenAs(name: string): Set<number> {
  const found = new Set<number>()
  for (const descriptor of readdirSync('/proc/self/fd')) {
    try {
      const link = `/proc/self/fd/${descriptor}`
      if (readlinkSync(link) === name) found.add(statSync(link).ino)
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

/** What a process has open, counted so that two moments can be compared. Linux only: it reads /proc. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { setImmediate as nextTurn } from 'node:timers/promises'

export interface Resources {
  /** Open descriptors by what they lead to, e.g. `socket: 2`, or the path of a file. */
  readonly descriptors: Readonly<Record<string, number>>
  /** What keeps the event loop going, by its kind, as Node names it. */
  readonly handles: Readonly<Record<string, number>>
  readonly threads: number
  readonly children: number
  /** Listeners of the process itself, by the name of the event. */
  readonly listeners: Readonly<Record<string, number>>
}

/** What this process has open now. */
export function resources(): Resources {
  return {
    descriptors: counted(openDescriptors()),
    handles: counted(process.getActiveResourcesInfo()),
    threads: readdirSync('/proc/self/task').length,
    children: childrenOfThisProcess(),
    listeners: Object.fromEntries(process.eventNames().map((name) => [String(name), process.listenerCount(name)])),
  }
}

// Not every version of Node takes this from NODE_OPTIONS.
setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** Bytes in use after everything that can be collected has been. */
export async function heapBytes(): Promise<number> {
  for (let turn = 0; turn < 3; turn += 1) {
    collectGarbage()
    await nextTurn()
  }
  return process.memoryUsage().heapUsed
}

function openDescriptors(): string[] {
  return readdirSync('/proc/self/fd').flatMap((descriptor) => {
    try {
      // `socket:[1234]` becomes `socket`; the folder that is being read is gone again and has no name.
      return [readlinkSync(`/proc/self/fd/${descriptor}`).replace(/:\[.*\]$/, '')]
    } catch {
      return []
    }
  })
}

function childrenOfThisProcess(): number {
  const lists = readdirSync('/proc/self/task').map((thread) => {
    try {
      return readFileSync(`/proc/self/task/${thread}/children`, 'utf8')
    } catch {
      return ''
    }
  })
  return lists.join(' ').split(' ').filter(Boolean).length
}

function counted(names: readonly string[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const name of names.toSorted()) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

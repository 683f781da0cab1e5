import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'

/** One process of the machine. */
export interface ProcessEntry {
  readonly pid: number
  readonly parent: number
  readonly group: number
  /** Ended, and not yet noticed by its parent. In a container that may take for ever. */
  readonly hasEnded: boolean
}

/** Every process the system shows. Linux tells in /proc; slim images there have no `ps`. */
export function processTable(): ProcessEntry[] {
  return process.platform === 'linux' ? fromProc() : fromPs()
}

/** All processes of `table` that descend from `ancestor`. */
export function descendantsOf(ancestor: number, table: readonly ProcessEntry[]): number[] {
  const children = new Map<number, number[]>()
  for (const { pid, parent } of table) children.set(parent, [...(children.get(parent) ?? []), pid])
  const found: number[] = []
  const unseen = [ancestor]
  for (let parent = unseen.pop(); parent !== undefined; parent = unseen.pop()) {
    const own = children.get(parent) ?? []
    children.delete(parent)
    found.push(...own)
    unseen.push(...own)
  }
  return found
}

function fromProc(): ProcessEntry[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.flatMap((pid) => {
    try {
      const status = readFileSync(`/proc/${pid}/stat`, 'utf8')
      // The name stands in brackets and may hold anything: what follows the last bracket is state, parent, group.
      const [state, parent, group] = status.slice(status.lastIndexOf(')') + 2).split(' ')
      return [entry(pid, parent, group, state)]
    } catch {
      return [] // It ended meanwhile.
    }
  })
}

function fromPs(): ProcessEntry[] {
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid=,pgid=,stat='], { encoding: 'utf8', timeout: 1000 })
  const lines = (stdout ?? '').matchAll(/^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)/gm)
  return [...lines].map(([, pid, parent, group, state]) => entry(pid, parent, group, state))
}

function entry(pid?: string, parent?: string, group?: string, state?: string): ProcessEntry {
  return {
    pid: Number(pid),
    parent: Number(parent),
    group: Number(group),
    hasEnded: state?.startsWith('Z') === true || state?.startsWith('X') === true,
  }
}

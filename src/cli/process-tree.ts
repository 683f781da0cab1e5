import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'

/** All processes that descend from `ancestor`, as far as the system shows them. */
export function descendantsOf(ancestor: number): number[] {
  const children = new Map<number, number[]>()
  for (const [pid, parent] of processes()) children.set(parent, [...(children.get(parent) ?? []), pid])
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

type Parentage = readonly [pid: number, parent: number]

/** Every process and its parent. Linux tells in /proc; slim images there have no `ps`. */
function processes(): Parentage[] {
  return process.platform === 'linux' ? fromProc() : fromPs()
}

function fromProc(): Parentage[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.flatMap((pid) => {
    try {
      const status = readFileSync(`/proc/${pid}/stat`, 'utf8')
      // The name stands in brackets and may hold anything: the state and the parent follow the last bracket.
      const parent = status.slice(status.lastIndexOf(')') + 2).split(' ')[1]
      return [[Number(pid), Number(parent)] as const]
    } catch {
      return [] // It ended meanwhile.
    }
  })
}

function fromPs(): Parentage[] {
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8', timeout: 1000 })
  const lines = (stdout ?? '').matchAll(/^\s*(\d+)\s+(\d+)\s*$/gm)
  return [...lines].map(([, pid, parent]) => [Number(pid), Number(parent)] as const)
}

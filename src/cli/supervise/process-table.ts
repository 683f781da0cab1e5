import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync, readlinkSync } from 'node:fs'

/** One process of the machine. */
export interface ProcessEntry {
  readonly pid: number
  readonly parent: number
  readonly group: number
  /** The session; 0 where the system does not tell. */
  readonly session: number
  /** In the kernel's ticks since boot, so that a number that was given again is told apart; 0 where that is not known. */
  readonly started: number
  /** Ended, and not yet noticed by its parent. In a container that may take for ever. */
  readonly hasEnded: boolean
}

/** Every process the system shows; none where it shows none. Linux tells in /proc; slim images there have no `ps`. */
export function processTable(): ProcessEntry[] {
  if (process.platform !== 'linux') return fromPs()
  return processNumbers().flatMap((pid) => processEntry(pid) ?? [])
}

/** The numbers of all processes, where there is a /proc. */
export function processNumbers(): number[] {
  if (!isProcOurs()) return []
  return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? Number(name) : []))
}

/** A chroot or sandbox may have no /proc, or that of another pid namespace, where the numbers are those of other processes. */
function isProcOurs(): boolean {
  try {
    return readlinkSync('/proc/self') === String(process.pid)
  } catch {
    return false
  }
}

/** One process of /proc; undefined if it has ended meanwhile. */
export function processEntry(pid: number): ProcessEntry | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name stands in brackets and may hold anything: what follows the last bracket is field 3 and on.
    const fields = status.slice(status.lastIndexOf(')') + 2).split(' ')
    const [state, parent, group, session] = fields
    return entry({ pid, parent, group, session, started: fields[22 - 3], state })
  } catch {
    return undefined
  }
}

/** The processes that descend from any of `ancestors`, these included where the table has them. */
export function withDescendants(ancestors: Iterable<number>, table: readonly ProcessEntry[]): Set<number> {
  const children = new Map<number, number[]>()
  for (const { pid, parent } of table) {
    const siblings = children.get(parent)
    if (siblings === undefined) children.set(parent, [pid])
    else siblings.push(pid)
  }
  const found = new Set(ancestors)
  // A set is walked in the order of insertion, with what is added on the way.
  for (const parent of found) for (const child of children.get(parent) ?? []) found.add(child)
  return found
}

function fromPs(): ProcessEntry[] {
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid=,pgid=,stat='], { encoding: 'utf8', timeout: 1000 })
  const lines = (stdout ?? '').matchAll(/^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)/gm)
  return [...lines].map(([, pid, parent, group, state]) => entry({ pid, parent, group, state }))
}

type Field = string | number | undefined

function entry(fields: Record<'pid' | 'parent' | 'group' | 'state', Field> & { session?: Field; started?: Field }) {
  const { pid, parent, group, session = 0, started = 0, state } = fields
  return {
    pid: Number(pid),
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    started: Number(started),
    hasEnded: /^[ZX]/.test(String(state)),
  }
}

import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync, readlinkSync } from 'node:fs'

/** One process of the machine. */
export interface ProcessEntry {
  readonly pid: number
  readonly parent: number
  readonly group: number
  /** The session id; 0 if the system does not tell. */
  readonly session: number
  /** Start time in kernel ticks since boot, to detect a reused pid; 0 if unknown. */
  readonly started: number
  /** Whether it is a zombie: ended, but not reaped by its parent. In a container that may never happen. */
  readonly hasEnded: boolean
}

/** Every process that the system shows, possibly none. Linux: from /proc, because slim images have no `ps`. */
export function processTable(): ProcessEntry[] {
  if (process.platform !== 'linux') return fromPs()
  return processNumbers().flatMap((pid) => processEntry(pid) ?? [])
}

/** The pids of all processes; empty without a /proc of our pid namespace. */
export function processNumbers(): number[] {
  if (!isProcOurs()) return []
  return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? Number(name) : []))
}

/** A chroot or sandbox may have no /proc, or that of another pid namespace, whose pids are other processes. */
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
    // The name is in parentheses and may contain anything: field 3 follows the last parenthesis.
    const fields = status.slice(status.lastIndexOf(')') + 2).split(' ')
    const [state, parent, group, session] = fields
    return entry({ pid, parent, group, session, started: fields[22 - 3], state })
  } catch {
    return undefined
  }
}

/** The pids of `ancestors` and of all their descendants. */
export function withDescendants(ancestors: Iterable<number>, table: readonly ProcessEntry[]): Set<number> {
  const children = new Map<number, number[]>()
  for (const { pid, parent } of table) {
    const siblings = children.get(parent)
    if (siblings === undefined) children.set(parent, [pid])
    else siblings.push(pid)
  }
  const found = new Set(ancestors)
  // Iterating a set also visits the elements that are added meanwhile.
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

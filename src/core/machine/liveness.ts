import { randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { clockOffset, bootIdentity, machineIdentity } from './boot.ts'
import { hostname, uptime } from 'node:os'
import type { ProcessWatch } from './runner-name.ts'

/** A process, as far as the machine can tell processes apart. */
export interface ProcessIdentity {
  /**
   * The pid namespace, and what a time namespace adds to start times; empty if it is not known. If this differs, a stamp
   * proves nothing.
   */
  readonly namespace: string
  readonly pid: number
  /** When the process started, in the kernel's ticks since boot; 0 if that is not known. */
  readonly started: number
}

/** The liveness stamp of a claim: which driver of which process last claimed or renewed it. */
export interface LivenessStamp extends ProcessIdentity {
  readonly boot: string
  /** Two drivers in one process differ by this. */
  readonly serial: string
}

const pattern = /^([A-Za-z0-9.+-]+)_([\d.+-]*)_(\d+)_(\d+)_([0-9a-f]{16})$/

/** A new stamp for one driver. @internal */
export function newStamp(boot: string, process: ProcessIdentity): LivenessStamp {
  return { boot, ...process, serial: randomBytes(8).toString('hex') }
}

/** The stamp as stored with each claim, which is also the name of its inbox file. @internal */
export function stampText({ boot, namespace, pid, started, serial }: LivenessStamp): string {
  return `${boot}_${namespace}_${pid}_${started}_${serial}`
}

/** Reads a stored stamp. Undefined: not one of ours, so it proves nothing and has no inbox. @internal */
export function parseStamp(name: string): LivenessStamp | undefined {
  const [, boot, namespace, pid, started, serial] = pattern.exec(name) ?? []
  if (boot === undefined || serial === undefined) return undefined
  return { boot, namespace: namespace ?? '', pid: Number(pid), started: Number(started), serial }
}

/** Reads the process table. Replaced in tests. */
export interface ProcessProbe {
  /** The text of /proc/PID/stat; undefined where there is none to read. */
  stat(pid: number): string | undefined
  /** False only if the system says that no such process exists. */
  exists(pid: number): boolean
}

const systemProbe: ProcessProbe = {
  stat(pid) {
    try {
      return readFileSync(`/proc/${pid}/stat`, 'latin1')
    } catch {
      return undefined
    }
  },
  exists(pid) {
    try {
      process.kill(pid, 0)
      return true
    } catch (error) {
      // EPERM: the process exists and belongs to another user.
      return (error as NodeJS.ErrnoException).code !== 'ESRCH'
    }
  },
}

/** State and start time of a process, from /proc/PID/stat. */
export interface ProcessStat {
  readonly state: string
  readonly started: number
}

/** Parses /proc/PID/stat. The command name may hold spaces and brackets: fields are counted from its last bracket. */
export function parseStat(text: string): ProcessStat | undefined {
  const fields = text
    .slice(text.lastIndexOf(')') + 1)
    .trim()
    .split(/\s+/)
  const [state] = fields
  // Field 22 of the line; the first after the name is field 3.
  const started = Number(fields[22 - 3])
  if (state === undefined || !Number.isSafeInteger(started) || started <= 0) return undefined
  return { state, started }
}

/** This process, as another process sees it. */
export function ownProcess(): ProcessIdentity {
  const { pid } = process
  try {
    const text = readFileSync('/proc/self/stat', 'latin1')
    const stat = parseStat(text)
    // The /proc of another pid namespace (e.g. in a chroot) shows us under another pid: do not use it.
    if (stat !== undefined && Number.parseInt(text, 10) === pid) {
      const namespace = /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? ''
      return { namespace: pidNamespaceOf(namespace, clockOffset('boottime')), pid, started: stat.started }
    }
  } catch {
    // No /proc: macOS, Windows.
  }
  // Only Linux has pid namespaces; elsewhere one number names them all.
  return { namespace: process.platform === 'linux' ? '' : '0', pid, started: 0 }
}

/** The namespace of a process identity. Start times count from the boot in the reader's time namespace: add its offset. */
export function pidNamespaceOf(pidNamespace: string, boottimeOffset: string): string {
  return pidNamespace === '' || boottimeOffset === '' ? pidNamespace : `${pidNamespace}+${boottimeOffset}`
}

/**
 * Whether the process of a stamp has certainly ended, seen from `observer`. A stamp of another boot or another pid
 * namespace proves nothing, and neither does a process table that cannot be read.
 */
export function hasProcessEnded(
  stamp: LivenessStamp,
  observer: LivenessStamp,
  probe: ProcessProbe = systemProbe,
): boolean {
  if (stamp.boot !== observer.boot || stamp.namespace !== observer.namespace || stamp.namespace === '') return false
  if (stamp.pid === observer.pid && stamp.started === observer.started) return false
  const text = stamp.started > 0 ? probe.stat(stamp.pid) : undefined
  // A hidden /proc looks like an empty one: ask the kernel before taking the process for ended.
  if (text === undefined) return !probe.exists(stamp.pid)
  const stat = parseStat(text)
  if (stat === undefined) return false
  // Another start time: the pid now belongs to a new process.
  return stat.started !== stamp.started || stat.state === 'Z' || stat.state === 'X'
}

/** For how long a process that was seen alive is only checked for existence. */
const trustedMs = 20
/** The most processes remembered: more than ever share a store at once. */
const rememberedMax = 1000

/**
 * A check like {@link hasProcessEnded} for callers that check at every turn: reading /proc takes as long as a transaction.
 * The pid of a process seen alive just now cannot belong to another yet; at worst a zombie is noticed a moment later.
 */
export function cachedProcessCheck(probe: ProcessProbe = systemProbe): typeof hasProcessEnded {
  const seenAliveAt = new Map<string, number>()
  return (stamp, observer) => {
    const name = `${stamp.boot} ${stamp.namespace} ${stamp.pid} ${stamp.started}`
    const now = performance.now()
    if (now - (seenAliveAt.get(name) ?? -Infinity) < trustedMs && probe.exists(stamp.pid)) return false
    const gone = hasProcessEnded(stamp, observer, probe)
    if (seenAliveAt.size >= rememberedMax) seenAliveAt.clear()
    if (gone) seenAliveAt.delete(name)
    else seenAliveAt.set(name, now)
    return gone
  }
}

/** How processes of this machine recognise each other: by boot, pid namespace, pid and start time. */
export function processWatch(
  self: LivenessStamp = newStamp(bootIdentity(), ownProcess()),
  uptimeMs: () => number = () => uptime() * 1000,
): ProcessWatch {
  return {
    self: stampText(self),
    label: `process ${self.pid} on ${hostname()}`,
    machine: machineIdentity(),
    judge(name, unrenewedMs) {
      const stamp = parseStamp(name)
      if (stamp === undefined) return 'unknown'
      // Last renewed before this machine was started: that process ended with the boot before.
      if (stamp.boot !== self.boot) return unrenewedMs > uptimeMs() ? 'gone' : 'unknown'
      if (stamp.namespace !== self.namespace || stamp.namespace === '') return 'unknown'
      return hasProcessEnded(stamp, self) ? 'gone' : 'running'
    },
  }
}

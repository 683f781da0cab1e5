import {
  accessSync,
  constants,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'

const prefix = 'leasehold-'
/** How long an empty group is left alone: its run may be about to begin. */
const leftAloneMs = 60_000
const removalsMax = 10
const removalPauseMs = 5
const pauseCell = new Int32Array(new SharedArrayBuffer(4))
/** How deep to search nested groups: each nested run has one. */
const depthMax = 20

/**
 * A control group (Linux, version 2) that a command is started in. Its processes stay in it whatever they do to their session,
 * parent or environment, but few users may create one.
 */
export class ControlGroup {
  readonly directory: string

  constructor(directory: string) {
    this.directory = directory
  }

  /** Creates a group inside that of this process. Undefined without control groups, or without permission. */
  static make(mark: string): ControlGroup | undefined {
    try {
      const own = ownDirectory()
      if (own === undefined) return undefined
      accessSync(path.join(own, 'cgroup.procs'), constants.W_OK)
      clearOld(own)
      const directory = path.join(own, `${prefix}${mark}`)
      mkdirSync(directory)
      return new ControlGroup(directory)
    } catch {
      return undefined
    }
  }

  /** Calls `start` while this process itself is in the group, so that its children begin there. */
  startIn<Started>(start: () => Started): Started {
    const isIn = move(process.pid, this.directory)
    try {
      return start()
    } finally {
      if (isIn) move(process.pid, path.dirname(this.directory))
    }
  }

  /** The pids of all processes in the group. */
  processes(): number[] {
    return processesIn(this.directory, depthMax)
  }

  /** Removes the group, and moves its processes to the parent group. False: try again later. */
  remove(): boolean {
    for (let tries = 0; tries < removalsMax; tries += 1) {
      try {
        for (const pid of this.processes()) move(pid, path.dirname(this.directory))
        removeWithin(this.directory, depthMax)
        return true
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return true
        // The kernel counts an ended process for a moment longer. If this keeps failing, the next run removes the group.
        Atomics.wait(pauseCell, 0, 0, removalPauseMs)
      }
    }
    return false
  }
}

/** The directory of the control group that this process is in. */
function ownDirectory(): string | undefined {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
  const [, mounted] = /^\S+ \S+ \S+ \S+ (\S+) .* - cgroup2 /m.exec(mounts) ?? []
  const [, own] = /^0::(\/.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8')) ?? []
  return mounted === undefined || own === undefined ? undefined : path.join(mounted, own)
}

function move(pid: number, directory: string): boolean {
  try {
    writeFileSync(path.join(directory, 'cgroup.procs'), String(pid))
    return true
  } catch {
    return false
  }
}

function processesIn(directory: string, depth: number): number[] {
  try {
    const own = readFileSync(path.join(directory, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number)
    const inner = depth === 0 ? [] : groupsIn(directory).flatMap((group) => processesIn(group, depth - 1))
    return [...own, ...inner]
  } catch {
    return [] // The group is gone.
  }
}

function groupsIn(directory: string): string[] {
  const entries = readdirSync(directory, { withFileTypes: true })
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => path.join(directory, name))
}

function removeWithin(directory: string, depth: number): void {
  if (depth > 0) for (const group of groupsIn(directory)) removeWithin(group, depth - 1)
  rmdirSync(directory)
}

/** Removes groups of runs that were killed together with their watchdog. The kernel refuses if one is not empty. */
function clearOld(own: string): void {
  for (const group of groupsIn(own)) {
    try {
      const isOld = Date.now() - statSync(group).mtimeMs > leftAloneMs
      if (path.basename(group).startsWith(prefix) && isOld) rmdirSync(group)
    } catch {
      // The group is not empty, or is gone.
    }
  }
}

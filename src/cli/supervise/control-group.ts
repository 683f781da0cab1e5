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
/** How long one is left alone that nobody is in: its run may be about to begin. */
const leftAloneMs = 60_000
const removalsMax = 10
const removalPauseMs = 5
const pauseCell = new Int32Array(new SharedArrayBuffer(4))
/** How deep groups inside a run's are looked for: runs inside runs have one each. */
const depthMax = 20

/**
 * A control group (Linux, version 2) that a command is started in. Nothing that the command starts gets out of it, whatever
 * it does to its session, its parent or its environment; but few users may make one.
 */
export class ControlGroup {
  readonly directory: string

  constructor(directory: string) {
    this.directory = directory
  }

  /** One inside the group of this process. Undefined where there are none, or this user may not make one. */
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

  /** Starts something in the group: what this process starts while it is in it itself. */
  startIn<Started>(start: () => Started): Started {
    const isIn = move(process.pid, this.directory)
    try {
      return start()
    } finally {
      if (isIn) move(process.pid, path.dirname(this.directory))
    }
  }

  /** The numbers of all processes in it. */
  processes(): number[] {
    return processesIn(this.directory, depthMax)
  }

  /** Removes the group. What is still in it runs on in the one around it. False: that has to be tried again. */
  remove(): boolean {
    for (let tries = 0; tries < removalsMax; tries += 1) {
      try {
        for (const pid of this.processes()) move(pid, path.dirname(this.directory))
        removeWithin(this.directory, depthMax)
        return true
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return true
        // The system counts a process that has ended for a moment longer. Else the next run removes it.
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
    return [] // It is gone.
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

/** Removes what runs have left whose watchdog was killed with them. The system keeps those that somebody is in. */
function clearOld(own: string): void {
  for (const group of groupsIn(own)) {
    try {
      const isOld = Date.now() - statSync(group).mtimeMs > leftAloneMs
      if (path.basename(group).startsWith(prefix) && isOld) rmdirSync(group)
    } catch {
      // Somebody is in it, or it is gone.
    }
  }
}

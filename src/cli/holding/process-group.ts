import { descendantsOf, processTable, type ProcessEntry } from './process-table.ts'

/** A command and all that it started. */
export interface ProcessGroup {
  /** Sends a signal to every process of it. Quiet about those that have ended. */
  signal(name: NodeJS.Signals): void
  /** Whether anything of it is left. */
  isAlive(): boolean
}

/** A group of its own, led by the command: the system knows who belongs to it. */
export function ownGroup(leader: number): ProcessGroup {
  return {
    signal: (name) => void send(-leader, name),
    isAlive: () => send(-leader, 0) && isAnyAlive(({ group }) => group === leader),
  }
}

/**
 * A command that shares the group of the terminal, and this process with it. Signals go to it and its descendants; they
 * are remembered, since a process whose parent has ended is no longer found by descent.
 */
export function sharedGroup(leader: number): ProcessGroup {
  const members = new Set<number>()
  return {
    signal(name) {
      for (const member of [leader, ...descendantsOf(leader, processTable())]) members.add(member)
      for (const member of members) if (!send(member, name)) members.delete(member)
    },
    isAlive: () => isAnyAlive(({ pid }) => members.has(pid)),
  }
}

function isAnyAlive(isMember: (one: ProcessEntry) => boolean): boolean {
  return processTable().some((one) => isMember(one) && !one.hasEnded)
}

/** Whether there was somebody to send it to. */
function send(target: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(target, signal)
  } catch (error) {
    // Not ours to signal, but there: a command may have become another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

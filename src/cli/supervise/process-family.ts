import type { ControlGroup } from './control-group.ts'
import { processTable, withDescendants, type ProcessEntry } from './process-table.ts'
import { marksOf } from './run-mark.ts'

/** By what the processes of a run are recognised. */
export interface FamilyTraits {
  /** The mark in the environment of all that the run started. */
  readonly mark: string
  /** The command itself; undefined while it is not known. */
  readonly leader: Pick<ProcessEntry, 'pid' | 'started'> | undefined
  /** Whether the command leads a session, and a process group, of its own. */
  readonly ownsSession: boolean
  /** The control group that the command was started in, if there is one. */
  readonly controlGroup?: ControlGroup | undefined
}

/** Rounds after which a family that grows faster than it is suspended is killed as far as it is known. */
const roundsMax = 20

/**
 * A command and all that it started, wherever that has gone: what is in the run's control group, in the command's session or
 * group, what descends from a member, what carries the mark of the run, and what was a member when it was last looked for.
 */
export class ProcessFamily {
  readonly #traits: FamilyTraits
  /** Members by their numbers, with their start times: a number may be given to another process. */
  readonly #known = new Map<number, number>()
  /** Processes whose environment was read and does not carry the mark. They never will. */
  readonly #strangers = new Map<number, number>()

  constructor(traits: FamilyTraits) {
    this.#traits = traits
    if (traits.leader !== undefined) this.#known.set(traits.leader.pid, traits.leader.started)
  }

  /** All members that have not ended. */
  members(): ProcessEntry[] {
    const all = processTable()
    if (all.length === 0) return this.#unlisted()
    const table = all.filter(({ pid }) => pid !== process.pid)
    const inGroup = new Set(this.#traits.controlGroup?.processes())
    const certain = table.filter((entry) => inGroup.has(entry.pid) || this.#isMember(entry)).map(({ pid }) => pid)
    const family = withDescendants(certain, table)
    const found = table.filter(({ pid }) => family.has(pid))
    this.#known.clear()
    for (const { pid, started } of found) this.#known.set(pid, started)
    return found.filter(({ hasEnded }) => !hasEnded)
  }

  /** Whether anything of it is left. */
  isAlive(): boolean {
    return this.members().length > 0
  }

  /** Sends each member a signal, except where a run inside this one has its own Leasehold to pass the signal on. */
  signal(...names: NodeJS.Signals[]): void {
    const members = this.members()
    for (const name of names) {
      const isPassedOn = name !== 'SIGSTOP' && name !== 'SIGCONT'
      sendAll(isPassedOn ? members.filter(({ pid }) => !this.#isInner(pid)) : members, name, this.#ownGroup)
    }
  }

  /** Ends all members. Each is suspended first: it starts nothing then, and what it started is still found by descent. */
  kill(): void {
    const suspended = new Map<number, ProcessEntry>()
    for (let round = 0; round < roundsMax; round += 1) {
      const fresh = this.members().filter(({ pid, started }) => suspended.get(pid)?.started !== started)
      if (fresh.length === 0) break
      sendAll(fresh, 'SIGSTOP', this.#ownGroup)
      for (const entry of fresh) suspended.set(entry.pid, entry)
    }
    sendAll([...suspended.values()], 'SIGKILL', this.#ownGroup)
  }

  /** Where the system lists no processes: the command, or what is left of its group. */
  #unlisted(): ProcessEntry[] {
    const { leader, ownsSession } = this.#traits
    if (leader === undefined || !isThere(ownsSession ? -leader.pid : leader.pid)) return []
    const number = ownsSession ? leader.pid : 0
    return [{ ...leader, parent: process.pid, group: number, session: number, hasEnded: false }]
  }

  get #ownGroup(): number | undefined {
    return this.#traits.ownsSession ? this.#traits.leader?.pid : undefined
  }

  #isMember(entry: ProcessEntry): boolean {
    const { pid, started, session, group } = entry
    const { leader, ownsSession } = this.#traits
    if (this.#known.get(pid) === started) return true
    if (leader !== undefined && ownsSession && pid !== leader.pid) {
      // The number of a session or group is not given to a process while it has members.
      if (session === leader.pid || group === leader.pid) return true
    }
    return this.#isMarked(entry)
  }

  #isMarked({ pid, started, hasEnded }: ProcessEntry): boolean {
    if (hasEnded || process.platform !== 'linux' || this.#strangers.get(pid) === started) return false
    const marks = marksOf(pid)
    if (marks?.includes(this.#traits.mark)) return true
    if (marks !== undefined) this.#strangers.set(pid, started)
    return false
  }

  /** Whether a member was started by a run inside this one. */
  #isInner(pid: number): boolean {
    const { mark } = this.#traits
    const marks = process.platform === 'linux' ? (marksOf(pid) ?? []) : []
    return marks.includes(mark) && marks.at(-1) !== mark
  }
}

/** Sends it to the group of the command in one go, and to each of the others. */
function sendAll(members: readonly ProcessEntry[], name: NodeJS.Signals, ownGroup: number | undefined): void {
  const inGroup = members.filter(({ group }) => group === ownGroup)
  if (ownGroup !== undefined && inGroup.length > 0) send(-ownGroup, name)
  for (const { pid, group } of members) if (group !== ownGroup || ownGroup === undefined) send(pid, name)
}

/** Whether a process, or a group, can be signalled. */
function isThere(target: number): boolean {
  try {
    return process.kill(target, 0)
  } catch {
    return false
  }
}

/** Quiet about what has ended, and about what this user may not signal: it is found to be left at the end. */
function send(target: number, signal: NodeJS.Signals): void {
  try {
    process.kill(target, signal)
  } catch {
    // ESRCH or EPERM.
  }
}

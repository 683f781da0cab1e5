import type { ControlGroup } from './control-group.ts'
import { processTable, withDescendants, type ProcessEntry } from './process-table.ts'
import { marksOf } from './run-mark.ts'

/** How to recognise the processes of a run. */
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

/** Rounds of suspending before the kill. A family that forks faster than that is killed as far as it is known. */
const roundsMax = 20

/**
 * A command and every process that it started. A process is a member if it is in the run's control group, in the command's
 * session or process group, descends from a member, carries the mark of the run, or was a member at the last check.
 */
export class ProcessFamily {
  readonly #traits: FamilyTraits
  /** Start times of the members by pid: the system may reuse a pid. */
  readonly #known = new Map<number, number>()
  /** Start times of processes whose environment lacks the mark, by pid. It will never carry it. */
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

  /** Whether any member is alive. */
  isAlive(): boolean {
    return this.members().length > 0
  }

  /** Signals each member. The members of a nested run get it from their own Leasehold, except SIGSTOP and SIGCONT. */
  signal(...names: NodeJS.Signals[]): void {
    const members = this.members()
    for (const name of names) {
      const isPassedOn = name !== 'SIGSTOP' && name !== 'SIGCONT'
      sendAll(isPassedOn ? members.filter(({ pid }) => !this.#isInner(pid)) : members, name, this.#ownGroup)
    }
  }

  /** Kills all members. Suspends each first, so that none forks meanwhile and descendants are still found. */
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

  /** If the system lists no processes: the command, or what is left of its process group. */
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
      // The system does not reuse the id of a session or group while it has members.
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

  /** Whether a member belongs to a nested run. */
  #isInner(pid: number): boolean {
    const { mark } = this.#traits
    const marks = process.platform === 'linux' ? (marksOf(pid) ?? []) : []
    return marks.includes(mark) && marks.at(-1) !== mark
  }
}

/** Signals the command's process group in one call, and each other member. */
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

/** Ignores failures: the process has ended, or the caller reports it as left over. */
function send(target: number, signal: NodeJS.Signals): void {
  try {
    process.kill(target, signal)
  } catch {
    // ESRCH or EPERM.
  }
}

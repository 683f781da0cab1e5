import { spawn, type ChildProcess } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { isatty } from 'node:tty'
import type { EndingSignal, ForwardedSignal } from '../interruption.ts'
import { ControlGroup } from './control-group.ts'
import { ProcessFamily, type FamilyTraits } from './process-family.ts'
import { processEntry } from './process-table.ts'
import { markVariable, marksInside, newMark } from './run-mark.ts'
import { startWatchdog, type Watchdog } from './watchdog.ts'

/** How a command ended. */
export interface ProcessExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** What to run. */
export interface CommandSetup {
  readonly command: string
  readonly args: readonly string[]
  readonly variables: NodeJS.ProcessEnv
  /** The lock that it runs under, for its watchdog. */
  readonly lock: string
}

/** How often to look whether the rest has ended after the command did. */
const restEveryMs = 20
/** How long to wait for processes that were killed: the system may hold on to one. */
const killedWithinMs = 3000

/**
 * A command that runs with our input and output.
 *
 * It leads a session of its own, so that signals reach it and what it started in one go. At a terminal that would take the
 * terminal away from it (no Ctrl-C, no job control, no passwords), so there it stays in ours; what the terminal sends, it
 * gets from the terminal. All that it started is found in either case, see {@link ProcessFamily}.
 */
export class CommandProcess implements Disposable {
  readonly family: ProcessFamily
  readonly ended: Promise<ProcessExit>
  /** Called when this process goes on after it was stopped, before the command does. */
  resumed: (() => void) | undefined
  readonly #child: ChildProcess
  readonly #isShared: boolean
  readonly #watchdog: Watchdog
  readonly #controlGroup: ControlGroup | undefined

  /** Rejects with the system's error if the command cannot be started. */
  static async start({ command, args, variables, lock }: CommandSetup): Promise<CommandProcess> {
    const isShared = process.platform === 'win32' || isatty(0)
    const mark = newMark()
    const env = { ...variables, [markVariable]: marksInside(variables[markVariable], mark) }
    const controlGroup = process.platform === 'linux' ? ControlGroup.make(mark) : undefined
    // Before the command: there is no moment in which that runs unguarded.
    const watchdog = startWatchdog(lock, mark, controlGroup)
    try {
      const spawnIt = (): ChildProcess => spawn(command, args, { stdio: 'inherit', detached: !isShared, env })
      const child = controlGroup === undefined ? spawnIt() : controlGroup.startIn(spawnIt)
      const leader = leaderOf(child)
      if (leader !== undefined) watchdog.guard(leader, !isShared)
      const ended = new Promise<ProcessExit>((resolve) => {
        child.once('exit', (code, signal) => resolve({ code, signal }))
      })
      await new Promise<void>((resolve, reject) => {
        child.once('spawn', resolve)
        child.once('error', reject)
      })
      return new CommandProcess(child, ended, { mark, leader, ownsSession: !isShared, controlGroup }, watchdog)
    } catch (error) {
      watchdog[Symbol.dispose]()
      controlGroup?.remove()
      throw error
    }
  }

  private constructor(child: ChildProcess, ended: Promise<ProcessExit>, traits: FamilyTraits, watchdog: Watchdog) {
    this.#child = child
    this.#isShared = !traits.ownsSession
    this.#watchdog = watchdog
    this.#controlGroup = traits.controlGroup
    this.ended = ended
    this.family = new ProcessFamily(traits)
    if (!this.#isShared) process.on('SIGTSTP', this.#pause)
    process.on('SIGCONT', this.#goOn)
    // An error after the start is about a signal that could not be sent: the process has ended.
    child.on('error', () => {})
  }

  /** Passes on what somebody sent to us. At a terminal, its keys have reached the command already. */
  forward(signal: EndingSignal): void {
    if (this.#isShared && (signal === 'SIGINT' || signal === 'SIGQUIT')) return
    this.family.signal(signal)
  }

  /** Passes on what is for the command alone: it would end most of what the command started. */
  passSignal(signal: ForwardedSignal): void {
    const { pid, exitCode, signalCode } = this.#child
    if (pid === undefined || exitCode !== null || signalCode !== null) return
    try {
      // Not by `child.kill`, which in Deno sends one signal only.
      process.kill(pid, signal)
    } catch {
      // It has ended meanwhile.
    }
  }

  /** Tells it to end, or ends it, with all that it started. A command that was paused must run to hear it. */
  stop(signal: 'SIGTERM' | 'SIGKILL'): void {
    if (signal === 'SIGKILL') this.family.kill()
    else this.family.signal(signal, 'SIGCONT')
  }

  /**
   * Resolves when nothing is left of what the command started, or when what was killed does not end. Gives the numbers of
   * the processes that are left.
   */
  async restEnded(wasKilled: () => boolean): Promise<number[]> {
    let killedAt: number | undefined
    for (;;) {
      if (wasKilled()) {
        killedAt ??= performance.now()
        this.family.kill()
      }
      const left = this.family.members()
      if (left.length === 0 || (killedAt !== undefined && performance.now() - killedAt > killedWithinMs))
        return left.map(({ pid }) => pid)
      await pause(restEveryMs)
    }
  }

  /** Whether something that it started runs on without it. */
  get leftSomething(): boolean {
    return this.family.isAlive()
  }

  [Symbol.dispose](): void {
    process.off('SIGTSTP', this.#pause)
    process.off('SIGCONT', this.#goOn)
    this.#watchdog[Symbol.dispose]()
    this.#controlGroup?.remove()
    this.#child.unref()
  }

  /** Ctrl-Z stops us alone: a command in a session of its own must not run on without anybody to renew its lease. */
  readonly #pause = (): void => {
    this.family.signal('SIGSTOP')
    process.kill(process.pid, 'SIGSTOP')
  }

  readonly #goOn = (): void => {
    this.resumed?.()
    if (!this.#isShared) this.family.signal('SIGCONT')
  }
}

/** The process as it is found among others; undefined if the system would not start it. */
function leaderOf({ pid }: ChildProcess): FamilyTraits['leader'] {
  if (pid === undefined) return undefined
  return { pid, started: process.platform === 'linux' ? (processEntry(pid)?.started ?? -1) : 0 }
}

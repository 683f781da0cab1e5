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

/** The command to run, and its environment. */
export interface CommandSetup {
  readonly command: string
  readonly args: readonly string[]
  readonly variables: NodeJS.ProcessEnv
  /** The tag of the lock it runs under, for its watchdog. */
  readonly lock: string
}

/** How often to check whether the remaining processes have ended after the command did. */
const restEveryMs = 20
/** How long to wait for killed processes: one may be blocked in the kernel. */
const killedWithinMs = 3000

/**
 * A command that runs with our input and output.
 *
 * The command leads its own session, so that one signal reaches it and its children. At a terminal a new session would lose
 * the terminal (no Ctrl-C, no job control, no passwords), so there the command stays in our session and gets the terminal's
 * signals directly. {@link ProcessFamily} finds its processes in either case.
 */
export class CommandProcess implements Disposable {
  readonly family: ProcessFamily
  readonly ended: Promise<ProcessExit>
  /** Called when this process continues after a stop, before the command continues. */
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
    // Start the watchdog first, so that the command never runs unguarded.
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
    // An error after the start means that a signal could not be sent: the process has ended.
    child.on('error', () => {})
  }

  /** Forwards an ending signal. At a terminal, Ctrl-C and Ctrl-\\ have reached the command already. */
  forward(signal: EndingSignal): void {
    if (this.#isShared && (signal === 'SIGINT' || signal === 'SIGQUIT')) return
    this.family.signal(signal)
  }

  /** Forwards SIGUSR1 or SIGUSR2 to the command alone: by default they end a process, such as its children. */
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

  /** Stops the command and its processes. SIGCONT follows SIGTERM, since a suspended process cannot handle it. */
  stop(signal: 'SIGTERM' | 'SIGKILL'): void {
    if (signal === 'SIGKILL') this.family.kill()
    else this.family.signal(signal, 'SIGCONT')
  }

  /**
   * Resolves once all processes of the command have ended, or killed ones do not end in time. Resolves to the pids that are
   * left.
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

  /** Whether a process that the command started is still running. */
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

  /** Ctrl-Z stops only us: suspend a command in its own session too, since nobody renews its lease meanwhile. */
  readonly #pause = (): void => {
    this.family.signal('SIGSTOP')
    process.kill(process.pid, 'SIGSTOP')
  }

  readonly #goOn = (): void => {
    this.resumed?.()
    if (!this.#isShared) this.family.signal('SIGCONT')
  }
}

/** The pid and start time of the command; undefined if it could not be started. */
function leaderOf({ pid }: ChildProcess): FamilyTraits['leader'] {
  if (pid === undefined) return undefined
  return { pid, started: process.platform === 'linux' ? (processEntry(pid)?.started ?? -1) : 0 }
}

import { spawn, type ChildProcess } from 'node:child_process'
import { isatty } from 'node:tty'
import type { EndingSignal, TellingSignal } from '../interruption.ts'
import { ownGroup, sharedGroup, type ProcessGroup } from './process-group.ts'
import { startWatchdog } from './watchdog.ts'

/** How a command ended. */
export interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** How often to look whether the rest of a group has ended after its leader did. */
const restEveryMs = 20

/**
 * A command that runs with our input and output.
 *
 * It leads a process group of its own, so that it can be stopped with all that it started. At a terminal that would take
 * the terminal away from it (no Ctrl-C, no job control, no passwords), so there it stays in ours and is stopped by
 * descent; what the terminal sends, it gets from the terminal.
 */
export class CommandProcess implements Disposable {
  readonly group: ProcessGroup
  readonly ended: Promise<Ending>
  /** Called when this process goes on after it was stopped, before the command does. */
  resumed: (() => void) | undefined
  readonly #child: ChildProcess
  readonly #isShared: boolean
  readonly #watchdog: Disposable

  /** Rejects with the system's error if the command cannot be started. */
  static async start(command: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<CommandProcess> {
    const isShared = process.platform === 'win32' || isatty(0)
    const child = spawn(command, args, { stdio: 'inherit', detached: !isShared, env })
    const ended = new Promise<Ending>((resolve) => {
      child.once('exit', (code, signal) => resolve({ code, signal }))
    })
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve)
      child.once('error', reject)
    })
    return new CommandProcess(child, isShared, ended)
  }

  private constructor(child: ChildProcess, isShared: boolean, ended: Promise<Ending>) {
    const pid = child.pid as number
    this.#child = child
    this.#isShared = isShared
    this.ended = ended
    this.group = isShared ? sharedGroup(pid) : ownGroup(pid)
    this.#watchdog = startWatchdog(isShared ? pid : -pid)
    if (!isShared) process.on('SIGTSTP', this.#pause)
    process.on('SIGCONT', this.#goOn)
    // An error after the start is about a signal that could not be sent: the process has ended.
    child.on('error', () => {})
  }

  /** Passes on what somebody sent to us. At a terminal, its keys have reached the command already. */
  forward(signal: EndingSignal): void {
    if (this.#isShared && (signal === 'SIGINT' || signal === 'SIGQUIT')) return
    this.group.signal(signal)
  }

  /** Passes on what is for the command alone: it would end most of what the command started. */
  tell(signal: TellingSignal): void {
    this.#child.kill(signal)
  }

  /** Tells it to end, or ends it, with all that it started. A command that was paused must run to hear it. */
  stop(signal: 'SIGTERM' | 'SIGKILL'): void {
    this.group.signal(signal)
    if (signal !== 'SIGKILL') this.group.signal('SIGCONT')
  }

  /** Resolves when nothing of the group is left, or it has been killed. */
  async restEnded(wasKilled: () => boolean): Promise<void> {
    while (this.group.isAlive() && !wasKilled()) {
      await new Promise((resolve) => setTimeout(resolve, restEveryMs))
    }
  }

  /** Whether something that it started runs on without it. */
  get leftSomething(): boolean {
    return !this.#isShared && this.group.isAlive()
  }

  [Symbol.dispose](): void {
    process.off('SIGTSTP', this.#pause)
    process.off('SIGCONT', this.#goOn)
    this.#watchdog[Symbol.dispose]()
    this.#child.unref()
  }

  /** Ctrl-Z stops us alone: a command in a group of its own must not run on without anybody to renew its lease. */
  readonly #pause = (): void => {
    this.group.signal('SIGSTOP')
    process.kill(process.pid, 'SIGSTOP')
  }

  readonly #goOn = (): void => {
    this.resumed?.()
    if (!this.#isShared) this.group.signal('SIGCONT')
  }
}

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { signalTo } from './signal.ts'

/** A server process that a test can kill, freeze and thaw. */
export abstract class ServerProcess {
  /** The process started last. */
  protected process: ChildProcess | undefined

  /** Whether the process started last has not ended. */
  get isRunning(): boolean {
    return this.process !== undefined && this.process.exitCode === null && this.process.signalCode === null
  }

  /** Kills the server as a crash would: data that was not on disk is lost. */
  async kill(): Promise<void> {
    const running = this.process
    if (running === undefined || !this.isRunning) return
    running.kill('SIGKILL')
    await once(running, 'exit')
  }

  /** Freezes the process: connections stay open, nothing is answered. */
  freeze(): void {
    signalTo(this.process, 'SIGSTOP')
  }

  thaw(): void {
    signalTo(this.process, 'SIGCONT')
  }
}

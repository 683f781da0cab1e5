import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { signalTo } from './signal.ts'

/** A server that a test started, and may do things to. */
export abstract class ServerProcess {
  /** The one that was started last. */
  protected process: ChildProcess | undefined

  /** Ends it as a crash would. What was not on disk is lost. */
  async kill(): Promise<void> {
    const running = this.process
    if (running === undefined || running.exitCode !== null || running.signalCode !== null) return
    running.kill('SIGKILL')
    await once(running, 'exit')
  }

  /** Stops it in its tracks: connections stay, nothing is answered. */
  freeze(): void {
    signalTo(this.process, 'SIGSTOP')
  }

  thaw(): void {
    signalTo(this.process, 'SIGCONT')
  }
}

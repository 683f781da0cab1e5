import type { ChildProcess } from 'node:child_process'

/** Sends a signal to a process that may get more than one: `child.kill` sends one only in Deno. */
export function signalTo(child: ChildProcess | undefined, signal: 'SIGSTOP' | 'SIGCONT'): void {
  if (child?.pid !== undefined && child.exitCode === null && child.signalCode === null) process.kill(child.pid, signal)
}

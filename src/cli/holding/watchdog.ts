import { spawn } from 'node:child_process'

/** Waits for the end of its input, which comes when this process ends however it does, and then kills. */
const script = 'read -r word || kill -s KILL -- "$1"'

/**
 * Kills `target` (a process, or with a minus a group) if this process is itself killed, when nothing of ours can run any
 * more: the store may pass the lock on at once. One small shell, gone as soon as it is dismissed.
 */
export function startWatchdog(target: number): Disposable {
  if (process.platform === 'win32') return { [Symbol.dispose]: () => {} }
  const watchdog = spawn('/bin/sh', ['-c', script, 'leasehold-watchdog', String(target)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // Out of reach of what ends the rest of us, Ctrl-C or the end of the terminal.
    detached: true,
    cwd: '/',
  })
  // A system without a shell has no watchdog. Nothing is ever written, but its end must not be an error here.
  watchdog.on('error', () => {})
  watchdog.stdin.on('error', () => {})
  watchdog.unref()
  ;(watchdog.stdin as unknown as { unref(): void }).unref()
  return { [Symbol.dispose]: () => void watchdog.kill('SIGKILL') }
}

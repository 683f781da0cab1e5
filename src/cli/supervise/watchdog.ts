import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { ControlGroup } from './control-group.ts'
import type { FamilyTraits } from './process-family.ts'
import { processEntry, processNumbers } from './process-table.ts'

/** The name of a watchdog in the list of processes. */
const title = 'leasehold-watchdog'

/**
 * Reads which command to guard, then waits for the end of its input, which comes when Leasehold ends in any way. It suspends
 * at once what `kill` and `grep` find; the sweeper finds the rest and kills everything. If the command has used up the user's
 * process limit, the shell cannot fork and exits: the `finish` trap then signals with builtins only, and sweeps after that.
 */
const script = `trap '' HUP INT QUIT TERM
mark=$3 node=$4 sweeper=$5 group=$6
sweep() { "$node" "$sweeper" "$mark" "$leader" "$started" "$group"; }
finish() {
  for signal in STOP STOP STOP KILL KILL; do
    [ -n "$leader" ] && kill -s $signal -- "$leader"
    for file in /proc/[0-9]*/environ; do
      while read -r line || [ -n "$line" ]; do
        case $line in *"$mark"*) pid=\${file#/proc/}; kill -s $signal "\${pid%/environ}"; break ;; esac
      done < "$file"
    done
  done
  sweep
}
read -r leader started
read -r word && exit
trap finish EXIT
[ -n "$leader" ] && kill -s STOP -- "$leader"
for file in $(grep -lsF "$mark" /proc/[0-9]*/environ); do
  pid=\${file#/proc/}
  kill -s STOP "\${pid%/environ}"
done
sweep && trap - EXIT`

/** A small shell that outlives this process if this process is killed, and then ends what it guards. */
export interface Watchdog extends Disposable {
  /** Tells the watchdog which process the command is. */
  guard(leader: NonNullable<FamilyTraits['leader']>, ownsSession: boolean): void
}

/**
 * Starts a watchdog for the processes that will carry `mark` or be in the control group. If this process is killed, the lock
 * may pass on while they still run. By the tag `lock`, the next holder on this machine finds the watchdog and waits for it.
 */
export function startWatchdog(lock: string, mark: string, controlGroup: ControlGroup | undefined): Watchdog {
  if (process.platform === 'win32') return { guard: () => {}, [Symbol.dispose]: () => {} }
  const sweeper = fileURLToPath(new URL('./sweeper.js', import.meta.url))
  const words = [title, lock, String(process.pid), mark, process.execPath, sweeper, controlGroup?.directory ?? '']
  const watchdog = spawn('/bin/sh', ['-c', script, ...words], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // In its own session, so that Ctrl-C or a hang-up of the terminal does not end it.
    detached: true,
    cwd: '/',
    env: { ...process.env, NODE_OPTIONS: undefined },
  })
  // A system without /bin/sh has no watchdog. A watchdog that ended must not raise an error here.
  watchdog.on('error', () => {})
  watchdog.stdin.on('error', () => {})
  watchdog.unref()
  // In Bun a pipe has no `unref`, and keeps no process running.
  ;(watchdog.stdin as unknown as { unref?(): void }).unref?.()
  return {
    guard: ({ pid, started }, ownsSession) => void watchdog.stdin.write(`${ownsSession ? '-' : ''}${pid} ${started}\n`),
    [Symbol.dispose]: () => void watchdog.kill('SIGKILL'),
  }
}

/** A hash that stands for a lock in the list of processes, which everybody can read. */
export function lockTag(storeUrl: string, key: string): string {
  return createHash('sha256').update(`${storeUrl}\n${key}`).digest('hex').slice(0, 32)
}

/** How often to check whether a watchdog has finished, and for how long at most. */
const pollEveryMs = 10
const finishedWithinMs = 10_000

/**
 * Resolves to true once no watchdog on this machine is still killing processes of an earlier holder of the lock, and to false
 * if one does not finish in time. Linux only: elsewhere always true.
 */
export async function sweepsFinished(lock: string, signal: AbortSignal): Promise<boolean> {
  if (process.platform !== 'linux') return true
  const until = performance.now() + finishedWithinMs
  for (
    let sweeping = sweepingFor(lock, processNumbers());
    sweeping.length > 0;
    sweeping = sweepingFor(lock, sweeping)
  ) {
    if (performance.now() > until || signal.aborted) return false
    await pause(pollEveryMs)
  }
  return true
}

/** Those of `pids` that are watchdogs of the lock and whose Leasehold has ended. */
function sweepingFor(lock: string, pids: readonly number[]): number[] {
  return pids.filter((pid) => {
    const [, , , called, guarded, stamp] = commandLine(pid)
    if (called !== title || guarded !== lock) return false
    const entry = processEntry(pid)
    if (entry === undefined || entry.hasEnded) return false
    // A parent whose first thread has ended shows as a zombie, but keeps its children until its last thread ends.
    return entry.parent !== Number(stamp) || (processEntry(entry.parent)?.hasEnded ?? true)
  })
}

function commandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0')
  } catch {
    return []
  }
}

import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { ControlGroup } from './control-group.ts'
import type { FamilyTraits } from './process-family.ts'
import { processEntry, processNumbers } from './process-table.ts'

/** What a watchdog is called in the list of processes. */
const title = 'leasehold-watchdog'

/**
 * Reads which command it guards, and waits for the end of its input, which comes when Leasehold ends in whatever way. What
 * can be found without starting a program is suspended at once; the sweeper finds the rest and kills all of it. A shell that
 * can start no program, since the command has used up all processes that its user may have, ends: `finish` starts none, and
 * the sweeper follows once there is room.
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
  /** Says which command it is that carries the mark. */
  guard(leader: NonNullable<FamilyTraits['leader']>, ownsSession: boolean): void
}

/**
 * Starts a watchdog for whatever will carry `mark`, or be in the control group: when this process is killed nothing of ours can run any more, and the
 * store may pass the lock on at once. `lock` is how the next holder finds out that there is still something to be ended.
 */
export function startWatchdog(lock: string, mark: string, controlGroup: ControlGroup | undefined): Watchdog {
  if (process.platform === 'win32') return { guard: () => {}, [Symbol.dispose]: () => {} }
  const sweeper = fileURLToPath(new URL('./sweeper.js', import.meta.url))
  const words = [title, lock, String(process.pid), mark, process.execPath, sweeper, controlGroup?.directory ?? '']
  const watchdog = spawn('/bin/sh', ['-c', script, ...words], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // Out of reach of what ends the rest of us, Ctrl-C or the end of the terminal.
    detached: true,
    cwd: '/',
    env: { ...process.env, NODE_OPTIONS: undefined },
  })
  // A system without a shell has no watchdog. Its end must not be an error here.
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

/** Names a lock in the list of processes, where everybody can read it. */
export function lockTag(storeUrl: string, key: string): string {
  return createHash('sha256').update(`${storeUrl}\n${key}`).digest('hex').slice(0, 32)
}

/** How often to look whether a watchdog has finished, and for how long at most. */
const lookEveryMs = 10
const finishedWithinMs = 10_000

/**
 * Resolves once no watchdog on this machine still ends what an earlier holder of the lock started. False: one does not come
 * to an end. Only Linux tells.
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
    await pause(lookEveryMs)
  }
  return true
}

/** Those of `pids` that are watchdogs of the lock, and have lost the process they belong to. */
function sweepingFor(lock: string, pids: readonly number[]): number[] {
  return pids.filter((pid) => {
    const [, , , called, guarded, stamp] = commandLine(pid)
    if (called !== title || guarded !== lock) return false
    const entry = processEntry(pid)
    if (entry === undefined || entry.hasEnded) return false
    // A process whose first thread has ended counts as ended, and keeps its children until its last one has, too.
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

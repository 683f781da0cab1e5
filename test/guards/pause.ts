import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from '../../src/index.ts'
import { Child } from '../support/child.ts'
import { openCounter } from './counters.ts'

const stoppedWithinMs = 30_000

/** What came of it when a holder was paused past its lease. */
export interface PauseOutcome {
  /** Updates that were acknowledged and are not in the counter. */
  readonly lostUpdates: number
  /** What the paused process said of its write. */
  readonly latecomer: string
}

/** Pauses a process that holds the lock, lets the next holder write, lets the process go on, and counts. */
export async function pauseHolder(kind: string, place: string, guarded: boolean, url: string): Promise<PauseOutcome> {
  const counter = await openCounter(kind, place, guarded)
  const locks = await connect(url)
  const child = new Child('paused-writer', [kind, place, guarded ? 'guarded' : 'unguarded', url])
  try {
    await child.line(/paused/)
    await stopped(child.process.pid as number)
    const before = await counter.read()
    await locks.run('counter', async (lease) => counter.write((await counter.read()) + 1, lease.fence))
    child.process.kill('SIGCONT')
    const latecomer = await child.line(/written|refused/)
    const acknowledged = latecomer === 'written' ? 2 : 1
    return { lostUpdates: before + acknowledged - (await counter.read()), latecomer }
  } finally {
    await child.kill()
    await locks.close()
    await counter.close()
  }
}

/** Resolves once the system has stopped the process. */
async function stopped(pid: number): Promise<void> {
  const deadline = performance.now() + stoppedWithinMs
  while (!/\) T /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))) {
    if (performance.now() > deadline) throw new Error(`Process ${pid} was not stopped within ${stoppedWithinMs} ms.`)
    await pause(5)
  }
}

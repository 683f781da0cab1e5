import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from '../../src/index.ts'
import { Child } from '../support/child.ts'
import { openCounter } from './counters.ts'

const stoppedWithinMs = 30_000

/** The outcome after a holder was paused past its lease. */
export interface PauseOutcome {
  /** Updates that were acknowledged and are not in the counter. */
  readonly lostUpdates: number
  /** What the paused process said of its write. */
  readonly latecomer: string
}

/** How holders write: without a fence, with the fence in each write, or also raising it before they read. */
export type Care = 'unguarded' | 'guarded' | 'raised'

/** When the paused process goes on: after the next holder has written, or between its read and its write. */
export type Moment = 'after the write' | 'before the write'

/** Pauses a process that holds the lock, lets the next holder in, lets the process go on, and counts. */
export async function pauseHolder(
  kind: string,
  place: string,
  care: Care,
  moment: Moment,
  url: string,
): Promise<PauseOutcome> {
  const counter = await openCounter(kind, place, care !== 'unguarded')
  const locks = await connect(url)
  const child = new Child('paused-writer', [kind, place, care, url])
  const goOn = (): Promise<string> => {
    child.process.kill('SIGCONT')
    return child.line(/written|refused/)
  }
  try {
    await child.line(/paused/)
    await stopped(child.process.pid as number)
    const before = await counter.read()
    const overtaken = await locks.run('counter', async ({ fence }) => {
      if (care === 'raised') await counter.raise(fence)
      const value = await counter.read()
      const said = moment === 'before the write' ? await goOn() : undefined
      await counter.write(value + 1, fence)
      return said
    })
    const latecomer = overtaken ?? (await goOn())
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

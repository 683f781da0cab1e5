/**
 * Forked by `soak`, many at once, with a URL, a log, a name and a number of locks: takes random ones of them again and
 * again, until the parent ends it.
 */
import { readdirSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { ready } from '../../bench/support/child.ts'
import { connect, type LeaseholdError } from '../../src/index.ts'
import { monotonicMs } from '../../src/core/machine/machine-clock.ts'
import { historyLog } from '../../src/testing/index.ts'

/** What a process has in use. */
export interface Use {
  readonly heapBytes: number
  readonly descriptors: number
  readonly timers: number
}

/** What a process did. */
export interface Soaked {
  readonly holds: number
  readonly lost: number
  /** Why acquires failed, each reason once. */
  readonly misses: readonly string[]
  /** Timers left when all is closed. */
  readonly timers: number
}

export type Order = 'measure' | 'end'

const [url = '', log = '', name = '', lockCount = '0'] = process.argv.slice(2)
const workers = 4
const holdMsMax = 20
/** Only the holds of one lock in this many are logged: all of them would be gigabytes within minutes. */
const watchedOneIn = 20

const history = historyLog(log)
const locks = await connect(url, { defaults: { ttl: '30s', wait: '1m' } })
const misses = new Set<string>()
const run = { holds: 0, lost: 0, turns: 0, over: false }
locks.on('lost', () => (run.lost += 1))

async function work(): Promise<void> {
  while (!run.over) {
    const index = Math.floor(Math.random() * Number(lockCount))
    const attempt = `${name}-${(run.turns += 1)}`
    const watched = index % watchedOneIn === 0
    if (watched) history.write({ type: 'acquire', client: name, attempt, key: String(index), mode: 'exclusive' })
    try {
      const lease = await locks.acquire(`soak/${index}`)
      const deadline = monotonicMs() + lease.remainingMs
      if (watched) history.write({ type: 'granted', attempt, fence: lease.fence, deadline })
      await pause(Math.random() * holdMsMax)
      if (watched) history.write({ type: 'release', attempt })
      await lease.release()
      run.holds += 1
    } catch (error) {
      if (watched) history.write({ type: 'refused', attempt })
      misses.add((error as LeaseholdError).message)
    }
  }
}

function use(): Use {
  // Run with --expose-gc.
  globalThis.gc?.()
  const { heapUsed } = process.memoryUsage()
  return { heapBytes: heapUsed, descriptors: readdirSync('/proc/self/fd').length, timers: timersAlive() }
}

function timersAlive(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
}

const working = Array.from({ length: workers }, () => work())
process.on('message', (order: Order) => {
  if (order === 'measure') process.send?.(use())
  else void end()
})
ready()

async function end(): Promise<void> {
  run.over = true
  await Promise.all(working)
  await locks.close()
  const { holds, lost } = run
  const soaked: Soaked = { holds, lost, misses: [...misses], timers: timersAlive() }
  process.send?.(soaked, () => process.disconnect())
}

import type { Locks } from '../../../src/api/locks.ts'
import { faulty, type FaultyDriver } from '../../../src/testing/faults.ts'
import { locksBench, type LocksBench } from './bench-of-locks.ts'

/** The names that metrics have for what `stats()` counts. */
export const published: Record<string, string> = {
  'lock.acquired': 'acquired',
  'lock.released': 'released',
  'lock.heartbeat_renewed': 'heartbeat_renewed',
  'lock.heartbeat_failed': 'heartbeat_failed',
  'lock.takeover_detected': 'takeovers',
  'lock.stale_detected': 'stale',
  'lock.contention': 'contentions',
  'lock.jeopardy': 'jeopardy',
  'lock.leaving': 'leaving',
  'lock.lost': 'lost',
  'lock.passed_on': 'passed_on',
  'lock.failed': 'failed',
}

/** A watched client, and a rival that contends with it. */
export interface Stage {
  readonly bench: LocksBench
  readonly watched: Locks
  readonly rival: Locks
  /** Between the watched client and the store. */
  readonly line: FaultyDriver
}

export async function stage(): Promise<Stage> {
  const bench = locksBench()
  const rival = await bench.client({ namespace: 'shop' })
  const lines: FaultyDriver[] = []
  bench.wrap = (driver) => {
    const line = faulty(driver)
    lines.push(line)
    return line
  }
  const watched = await bench.client({ namespace: 'shop' })
  const [line] = lines
  if (line === undefined) throw new Error('The watched client has no line to the store.')
  return { bench, watched, rival, line }
}

/** Makes the watched client emit every event, some twice. At the end it holds "kept". */
export async function playStory({ bench, watched, rival, line }: Stage): Promise<void> {
  const { advance } = bench
  const first = await watched.acquire('a')
  await advance(2000)
  await first.release()

  const held = await rival.acquire('b')
  const queued = watched.acquire('b')
  await advance(500)
  await held.release()
  await (await queued).release()

  await rival.acquire('c')
  const timedOut = watched.acquire('c', { wait: '3s' }).catch(() => undefined)
  await advance(3000)
  await timedOut
  await watched.acquire('c', { onConflict: 'fail' }).catch(() => undefined)

  // The rival stops renewing, and the watched client is cut off from the store.
  await rival.acquire('d', { ttl: '5s', heartbeat: 'manual' })
  const successor = watched.acquire('d')
  await advance(5100)
  await successor
  await advance(40_000)
  line.plan = { reject: 1 }
  await advance(40_000)
  line.plan = {}

  const preempted = await watched.acquire('e', { ttl: '9s' })
  const important = rival.acquire('e', { onConflict: 'preempt', priority: 'high' })
  await advance(1000)
  await preempted.release()
  await important

  const reader = await watched.readWrite('f').read()
  await advance(100)
  await (await reader.upgrade()).release()
  await (await watched.acquire('g')).handOff()
  await watched.acquire('kept')
}

import { setTimeout as pause } from 'node:timers/promises'
import { byteRange, type AcquireOptions, type Lease, type Locks, LeaseholdError } from '../../../src/index.ts'
import { internalsOf } from '../../../src/api/client/locks-internals.ts'
import { monotonicMs } from '../../../src/core/machine/machine-clock.ts'
import type { ResourceCall, ResourceName } from '../../chaos/resources.ts'
import type { ClientLog } from './client-log.ts'

/** Takes a lock in one of the ways there are, and lets it go. Resolves to whether it had its turn. */
export type Turn = () => Promise<boolean>

export interface TurnSetting {
  readonly locks: Locks
  readonly log: ClientLog
  readonly ttlMs: number
  readonly manyAtOnce: number
  readonly callResource: CallResource
}

/** Reads a counter, writes it, or says that it is about to. Undefined: the fence was superseded, or there is nothing to say. */
export type CallResource = (call: Omit<ResourceCall, 'type' | 'id'>) => Promise<number | undefined>

type Wanted = Parameters<ClientLog['begin']>[0]
type Work = (lease: Lease, attempt: string) => Promise<void>

/** From the last look at the lease to the write. */
const updateMs = [1, 10] as const
/** Most waiters wait for as long as it takes; some give up. */
const longWaitMs = 120_000
const mutexes = 8
const manyLocks = 2000

function between(least: number, most: number): number {
  return least + Math.random() * (most - least)
}

/** What the ten workers of a client do. What a store cannot do is left out. */
export function turnsOf(setting: TurnSetting): readonly Turn[] {
  const { locks, ttlMs, manyAtOnce } = setting
  const { supports } = internalsOf(locks, 'The chaos').client.driver
  const options = (): AcquireOptions => ({
    ttl: ttlMs,
    wait: Math.random() < 0.1 ? between(50, ttlMs) : longWaitMs,
    ...(Math.random() < 0.1 && { heartbeat: 'manual' }),
  })
  const patient = (): AcquireOptions => ({ ttl: ttlMs, wait: longWaitMs })

  const mutex: Turn = () => {
    const key = `mutex-${Math.floor(Math.random() * mutexes)}`
    const priority = supports.priority && Math.random() < 0.1 ? 5 : 0
    return hold(
      setting,
      { key, mode: 'exclusive', priority },
      () => locks.acquire(key, { ...options(), priority }),
      (lease, attempt) => use(setting, lease, attempt),
    )
  }
  const many: Turn = async () => {
    const names = new Set(Array.from({ length: manyAtOnce }, () => `many-${Math.floor(Math.random() * manyLocks)}`))
    const turns = [...names].map((key) =>
      hold(
        setting,
        { key, mode: 'exclusive' },
        () => locks.acquire(key, patient()),
        async (lease, attempt) => void setting.log.check(attempt, lease),
      ),
    )
    const outcomes = await Promise.allSettled(turns)
    // So many at once leave the processor to the other workers for a while.
    await pause(between(20, 80))
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
    return outcomes.every((outcome) => outcome.status === 'fulfilled' && outcome.value)
  }
  const readWrite: Turn = () => {
    const lock = locks.readWrite('book')
    const mode = Math.random() < 0.4 ? 'exclusive' : 'shared'
    return hold(
      setting,
      { key: 'book', mode },
      () => (mode === 'shared' ? lock.read(options()) : lock.write(options())),
      (lease, attempt) => use(setting, lease, attempt),
    )
  }
  const semaphore: Turn = () =>
    hold(
      setting,
      { key: 'pool', mode: 'shared', limit: 3 },
      () => locks.semaphore('pool', 3).acquire(options()),
      (lease, attempt) => use(setting, lease, attempt),
    )
  const ranges: Turn = () => {
    const start = Math.floor(Math.random() * 6) * 10
    const range = { start, end: start + 15 }
    return hold(
      setting,
      { key: 'file', mode: 'exclusive', range },
      () => locks.acquire(byteRange(7, range.start, range.end), options()),
      (lease, attempt) => use(setting, lease, attempt),
    )
  }
  return [
    update(setting, 'unfenced', patient),
    update(setting, 'fenced', patient),
    mutex,
    mutex,
    many,
    supports.shared ? readWrite : mutex,
    supports.limit ? semaphore : mutex,
    supports.range ? ranges : mutex,
    supports.convert ? conversions(setting, options) : mutex,
    Math.random() < 0.5 ? elections(setting) : once(setting),
  ]
}

/** Reads a counter and writes it back with one more, under a lock. */
function update(setting: TurnSetting, resource: ResourceName, options: () => AcquireOptions): Turn {
  const { locks, log, callResource } = setting
  return () =>
    hold(
      setting,
      { key: resource, mode: 'exclusive' },
      () => locks.acquire(resource, options()),
      async (lease, attempt) => {
        const { fence } = lease
        const value = await callResource({ resource, fence })
        if (value === undefined || !log.check(attempt, lease)) return
        // A process that is stopped here does not know it when it goes on.
        await callResource({ resource, fence, isAboutToWrite: true })
        await pause(between(...updateMs))
        await callResource({ resource, fence, value: value + 1 })
      },
    )
}

async function use({ log }: TurnSetting, lease: Lease, attempt: string): Promise<void> {
  await pause(between(0, 4))
  log.check(attempt, lease)
  if (Math.random() < 0.15) {
    // Too late, or no answer: the next check of the lease tells.
    await lease.renew().catch(expected)
    log.check(attempt, lease)
  }
  if (Math.random() < 0.02) {
    await pause(between(100, 600))
    log.check(attempt, lease)
  }
}

/** A reader that becomes the writer and then a reader again. */
function conversions(setting: TurnSetting, options: () => AcquireOptions): Turn {
  const { locks, log } = setting
  const key = 'converted'
  /** The hold before a conversion is certain until the call; the one after it from its return. */
  const convert = async (
    attempt: string,
    mode: 'exclusive' | 'shared',
    ask: () => Promise<Lease>,
  ): Promise<[Lease, string] | undefined> => {
    log.letGo(attempt)
    const next = log.begin({ key, mode, jumps: true })
    try {
      const lease = await ask()
      log.granted(next, lease)
      return [lease, next]
    } catch (error) {
      log.refused(next)
      expected(error)
      return undefined
    }
  }
  return async () => {
    const first = log.begin({ key, mode: 'shared' })
    let lease = await asked(setting, first, () => locks.readWrite(key).read(options()))
    log.granted(first, lease)
    try {
      await use(setting, lease, first)
      const reader = lease
      const upgraded = await convert(first, 'exclusive', () => reader.upgrade({ wait: between(20, 500) }))
      if (upgraded === undefined) return true
      const [writer, second] = upgraded
      lease = writer
      await use(setting, writer, second)
      const downgraded = await convert(second, 'shared', () => writer.downgrade())
      if (downgraded === undefined) return true
      ;[lease] = downgraded
      await use(setting, ...downgraded)
      log.letGo(downgraded[1])
      return true
    } finally {
      await lease.release()
    }
  }
}

function elections({ locks, log, ttlMs }: TurnSetting): Turn {
  return async () => {
    const attempt = log.begin({ key: 'leader', mode: 'exclusive' })
    const election = locks.elect('leader', { ttl: ttlMs })
    try {
      const term = await election.campaign({ wait: longWaitMs })
      const { fence } = term
      const at = monotonicMs()
      let until = at
      for (let looks = 0; looks < 3; looks += 1) {
        const now = monotonicMs()
        // Deposed and elected again, it has another fence.
        if (!term.held || election.term !== fence) break
        until = now
        await pause(between(0, 3))
      }
      log.held(attempt, fence, at, until)
      log.letGo(attempt)
      return true
    } catch (error) {
      log.refused(attempt)
      throw error
    } finally {
      await election.resign()
    }
  }
}

function once(setting: TurnSetting): Turn {
  const { locks, log, ttlMs } = setting
  return async () => {
    const attempt = log.begin({ key: 'job', mode: 'exclusive' })
    try {
      const { ran } = await locks.once('job', { atMost: ttlMs, atLeast: between(0, 20) }, async (lease) => {
        log.granted(attempt, lease)
        await use(setting, lease, attempt)
        log.letGo(attempt)
      })
      if (!ran) log.refused(attempt)
      return true
    } catch (error) {
      // The body may have run, and its lease may have been lost.
      if (!(error instanceof LeaseholdError && error.code === 'LOST')) log.refused(attempt)
      throw error
    }
  }
}

async function hold(setting: TurnSetting, wanted: Wanted, ask: () => Promise<Lease>, work: Work): Promise<boolean> {
  const { log } = setting
  const attempt = log.begin(wanted)
  const lease = await asked(setting, attempt, ask)
  log.granted(attempt, lease)
  try {
    await work(lease, attempt)
  } finally {
    log.letGo(attempt)
    await lease.release()
  }
  return true
}

async function asked({ log }: TurnSetting, attempt: string, ask: () => Promise<Lease>): Promise<Lease> {
  try {
    return await ask()
  } catch (error) {
    log.refused(attempt)
    throw error
  }
}

/** Of a call that may fail while everything around it does. */
function expected(error: unknown): void {
  if (!(error instanceof LeaseholdError)) throw error
}

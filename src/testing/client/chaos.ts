import { setTimeout as pause } from 'node:timers/promises'
import { expect } from '../vitest.ts'
import { monotonicMs } from '../../core/machine/machine-clock.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { checkHistory } from '../history.ts'
import type { HistoryEvent } from '../history/event.ts'
import type { Member } from './client-group.ts'
import type { ClientFact } from './fact.ts'

/** The run takes at least this long, and goes on until enough grants have happened to show something. */
const runMs = 1500
const runMsMax = 60_000
const enough = 20
/** Longer than any delay of the faults, also on a machine that is busy: no grant of such a short lease would reach its caller. */
const ttl = 2000

/** All faults at once. */
export function chaos(fact: ClientFact): void {
  fact('faults of every kind break no promise and throw nothing from a timer', async (group) => {
    const thrown: unknown[] = []
    const note = (error: unknown) => void thrown.push(error)
    process.on('unhandledRejection', note)
    process.on('uncaughtException', note)
    try {
      const events: HistoryEvent[] = []
      const members: Member[] = []
      for (let index = 0; index < 4; index += 1) members.push(await group.member({ ttl }))
      for (const { driver } of members) {
        driver.plan = {
          reject: 0.05,
          dropReply: 0.05,
          duplicate: 0.1,
          delayRequest: 0.2,
          delayReply: 0.2,
          delayMs: 60,
          dropNotifications: 0.3,
        }
      }
      const startedAt = monotonicMs()
      const faults = (): number => members.reduce((sum, { driver }) => sum + driver.faults, 0)
      const isOver = (): boolean => {
        const ranMs = monotonicMs() - startedAt
        const grants = events.filter(({ type }) => type === 'granted').length
        return ranMs > runMsMax || (ranMs > runMs && grants > enough && faults() > enough)
      }
      await Promise.all(members.map((member, index) => compete(member, `client-${index}`, events, isOver)))
      const { violations, summary } = checkHistory(
        events.toSorted((a, b) => a.at - b.at),
        { fair: false },
      )
      expect(violations).toEqual([])
      expect(summary.holds).toBeGreaterThan(10)
      expect(faults()).toBeGreaterThan(10)
      await pause(50)
      expect(thrown).toEqual([])
    } finally {
      process.off('unhandledRejection', note)
      process.off('uncaughtException', note)
    }
  })
}

async function compete(
  { locks }: Member,
  client: string,
  events: HistoryEvent[],
  isOver: () => boolean,
): Promise<void> {
  for (let turn = 0; !isOver(); turn += 1) {
    const attempt = `${client}-${turn}`
    events.push({ at: monotonicMs(), type: 'acquire', client, attempt, key: 'lock', mode: 'exclusive' })
    try {
      const lease = await locks.acquire('lock', { wait: 2 * ttl })
      // Read the clock first: the deadline noted must not be later than the one the lease keeps.
      const now = monotonicMs()
      const deadline = now + lease.remainingMs
      events.push({ at: monotonicMs(), type: 'granted', attempt, fence: lease.fence, deadline })
      await pause(5)
      events.push({ at: monotonicMs(), type: 'release', attempt })
      await lease.release()
    } catch (error) {
      expect(error).toBeInstanceOf(LeaseholdError)
      events.push({ at: monotonicMs(), type: 'refused', attempt })
    }
  }
}

import { describe, expect, test } from 'vitest'
import { checkHistory } from '../../src/testing/index.ts'
import { historyRun } from './history/run.ts'

describe('processes competing over one file', () => {
  test.each(['mutex', 'semaphore', 'readers and writers', 'ranges'])('leave a right history: %s', async (trade) => {
    const events = await historyRun({ trade, clients: 4, runMs: 2500, kills: 2, stops: 1 })
    const { violations, summary } = checkHistory(events)
    expect(violations).toEqual([])
    expect(summary.holds).toBeGreaterThan(50)
    expect(summary.handOvers).toBeGreaterThan(10)
    expect(summary.clients).toBeGreaterThanOrEqual(4)
  })

  test('that do not lock are found out', async () => {
    const events = await historyRun({ trade: 'mutex', clients: 3, runMs: 800, unlocked: true })
    const { violations } = checkHistory(events, { fair: false })
    expect(violations.map(({ kind }) => kind)).toContain('overlap')
  })
})

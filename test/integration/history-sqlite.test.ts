import { describe, expect, test } from 'vitest'
import { checkHistory } from '../../src/testing/index.ts'
import { expectRightHistory, historyRun } from './history/run.ts'
import { isLong } from '../support/extent.ts'

describe('processes competing over one file', () => {
  const trades = isLong ? ['mutex', 'semaphore', 'readers and writers', 'ranges'] : ['mutex', 'ranges']
  test.each(trades)('leave a right history: %s', async (trade) => {
    const options = { trade, clients: 4, runMs: 2500, kills: 2, stops: 1 }
    await expectRightHistory(options, { holds: 50, handOvers: 10 }, { fair: true })
  })

  test('that do not lock are found out', async () => {
    const events = await historyRun({ trade: 'mutex', clients: 3, runMs: 3000, unlocked: true })
    const { violations } = checkHistory(events, { fair: false })
    expect(violations.map(({ kind }) => kind)).toContain('overlap')
  })
})

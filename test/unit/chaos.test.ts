import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { openAttempts } from '../../prove/chaos/open-attempts.ts'
import { lanes, planRound } from '../../prove/chaos/plan.ts'
import { Resources } from '../../prove/chaos/resources.ts'
import { RoundHistory } from '../../prove/chaos/round-history.ts'
import { historyLog, type HistoryEvent } from '../../src/testing/index.ts'
import { folderForTest } from '../support/test-folder.ts'

const abilities = { clients: ['kill', 'stop'], network: ['cut', 'slow', 'refused'], store: ['crash'] }

describe('a plan of faults', () => {
  test('is the same for the same seed and round, and another for others', () => {
    const plan = planRound(7, 2, abilities, 20_000)
    expect(planRound(7, 2, abilities, 20_000)).toEqual(plan)
    expect(planRound(8, 2, abilities, 20_000)).not.toEqual(plan)
    expect(planRound(7, 3, abilities, 20_000)).not.toEqual(plan)
  })

  test('has every kind before any kind twice, one after another in each lane, and a fault every second or two', () => {
    for (let seed = 0; seed < 200; seed += 1) {
      const plan = planRound(seed, 0, abilities, 20_000)
      expect(plan.length).toBeGreaterThan(11)
      for (const lane of lanes) {
        const faults = plan.filter((fault) => fault.lane === lane)
        const first = faults.slice(0, abilities[lane].length).map(({ kind }) => kind)
        expect(first.toSorted()).toEqual(abilities[lane].toSorted())
        for (const [index, fault] of faults.entries()) {
          const next = faults[index + 1]
          if (next !== undefined) expect(next.atMs).toBeGreaterThan(fault.atMs + fault.forMs)
        }
      }
    }
  })
})

describe('the counters', () => {
  test('an update of a superseded holder is lost without a fence, and refused with one', async () => {
    const resources = new Resources()
    for (const resource of ['fenced', 'unfenced'] as const) {
      const call = { type: 'resource', id: 1, resource } as const
      expect(await resources.answer(0, { ...call, fence: 1 })).toMatchObject({ value: 0 })
      expect(await resources.answer(0, { ...call, fence: 2 })).toMatchObject({ value: 0 })
      const late = await resources.answer(0, { ...call, fence: 1, value: 1 })
      expect(late.value).toBe(resource === 'fenced' ? undefined : 1)
      await resources.answer(0, { ...call, fence: 2, value: 1 })
    }
    expect(resources.lostUpdates('fenced')).toBe(0)
    expect(resources.lostUpdates('unfenced')).toBe(1)
    expect(resources.figures('fenced')).toEqual({ writes: 1, refused: 1 })
  })
})

test('a client that is stopped before its write is stopped until another has written', async () => {
  const resources = new Resources()
  const call = { type: 'resource', id: 1, resource: 'unfenced' } as const
  let isOver = false
  const written = resources.writtenByOther('unfenced', 0, 60_000).then(() => (isOver = true))
  // What was under way when the client was stopped; and a reader.
  await resources.answer(0, { ...call, fence: 1, value: 1 })
  await resources.answer(1, { ...call, fence: 2 })
  expect(isOver).toBe(false)
  await resources.answer(1, { ...call, fence: 2, value: 2 })
  await written
  await resources.writtenByOther('unfenced', 0, 1)
})

describe('the history of a round', () => {
  /** Two clients that hold one lock at once, the second with this fence. */
  function written(fence: number): string {
    const log = path.join(folderForTest('chaos-history'), 'log')
    using history = historyLog(log)
    for (const [client, ofClient, at] of [
      ['one', 10, 1],
      ['other', fence, 3],
    ] as const) {
      history.write({ type: 'acquire', client, attempt: `${client}-${at}`, key: 'lock', mode: 'exclusive', at })
      history.write({ type: 'granted', attempt: `${client}-${at}`, fence: ofClient, deadline: 20, at: at + 1 })
    }
    for (const [client, at] of [
      ['one', 1],
      ['other', 3],
    ] as const) {
      history.write({ type: 'release', attempt: `${client}-${at}`, at: 10 })
    }
    return log
  }

  test('has a violation if two held together, unless the store forgot in between', () => {
    const kinds = (from: number, to: number): string[] =>
      new RoundHistory().check([written(11)], [{ from, to }]).violations.map(({ kind }) => kind)
    expect(kinds(30, 31)).toEqual(['overlap'])
    expect(kinds(2.5, 3)).toEqual([])
    // Both were granted after it.
    expect(kinds(0, 0.5)).toEqual(['overlap'])
  })

  test('has a violation if a fence fell, even if the store forgot, and across rounds', () => {
    const forgotten = [{ from: 2.5, to: 2.6 }]
    const kinds = (history: RoundHistory, fence: number): string[] =>
      history.check([written(fence)], forgotten).violations.map(({ kind }) => kind)
    expect(kinds(new RoundHistory(), 9)).toContain('fence-order')
    const history = new RoundHistory()
    expect(kinds(history, 11)).toEqual([])
    const log = path.join(folderForTest('chaos-history'), 'log')
    using later = historyLog(log)
    later.write({ type: 'acquire', client: 'third', attempt: 'third-1', key: 'lock', mode: 'exclusive', at: 40 })
    later.write({ type: 'granted', attempt: 'third-1', fence: 8, deadline: 60, at: 41 })
    expect(history.check([log], []).violations.map(({ kind }) => kind)).toContain('fence-order')
  })
})

test('a run that never comes to rest names the attempts that still wait or hold, and none of the dead', () => {
  const asked = (client: string) =>
    ({ type: 'acquire', client, attempt: `${client}-1`, key: 'lock', mode: 'exclusive', at: 1 }) as const
  const events: HistoryEvent[] = [
    ...['waiter', 'holder', 'dead', 'done'].map(asked),
    { type: 'granted', attempt: 'holder-1', fence: 2, at: 5 },
    { type: 'granted', attempt: 'done-1', fence: 1, at: 3 },
    { type: 'release', attempt: 'done-1', at: 4 },
    { type: 'crash', client: 'dead', at: 6 },
  ]
  expect(openAttempts(events, 11)).toEqual(['waiter-1 waits for 10 ms: lock', 'holder-1 holds for 6 ms: lock'])
})

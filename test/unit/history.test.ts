import { appendFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { checkHistory, historyLog, readHistory, type HistoryEvent } from '../../src/testing/index.ts'
import { seededRandom } from '../../src/testing/random.ts'
import { bruteForce } from './history/brute-force.ts'
import { plantings } from './history/plant.ts'
import { Simulation, trades } from './history/simulate.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'
import { rounds } from '../support/extent.ts'

const memory = new Map<string, HistoryEvent[]>()

function simulated(seed: number, trade: string, faults: number, clients = 5, untilMs = 1500): HistoryEvent[] {
  const name = `${seed} ${trade} ${faults}`
  const chosen = trades[trade]
  if (chosen === undefined) throw new Error(`No trade called ${trade}.`)
  const events = memory.get(name) ?? new Simulation(seed, chosen, faults).run(clients, untilMs)
  memory.set(name, events)
  return events
}

describe('a right history', () => {
  for (const trade of Object.keys(trades)) {
    test(`is passed, however late its messages: ${trade}`, () => {
      for (let seed = 0; seed < rounds(10, 30); seed += 1) {
        const { violations, summary } = checkHistory(simulated(seed, trade, 0), { gaps: true })
        expect(violations, `seed ${seed}`).toEqual([])
        expect(summary.holds).toBeGreaterThan(20)
      }
    })

    test(`is passed although clients crash and freeze: ${trade}`, () => {
      for (let seed = 0; seed < rounds(10, 30); seed += 1) {
        const { violations } = checkHistory(simulated(seed, trade, 0.03, 8, 3000), { gaps: true })
        expect(violations, `seed ${seed}`).toEqual([])
      }
    })
  }

  test('may have one fence twice, if that is one lease that was handed off', () => {
    const lease = { key: 'book', mode: 'shared', type: 'acquire' } as const
    const resumed = { at: 6, client: 'c', attempt: 'c/1', ...lease } as const
    const events: HistoryEvent[] = [
      { at: 0, client: 'a', attempt: 'a/1', ...lease },
      { at: 1, type: 'granted', attempt: 'a/1', fence: 7, deadline: 100 },
      { at: 2, client: 'b', attempt: 'b/1', ...lease },
      { at: 3, type: 'granted', attempt: 'b/1', fence: 8, deadline: 100 },
      { at: 5, type: 'release', attempt: 'a/1' },
      { ...resumed, resumes: 'a/1' },
      { at: 7, type: 'granted', attempt: 'c/1', fence: 7, deadline: 100 },
    ]
    expect(checkHistory(events).violations).toEqual([])
    const unsaid = events.map((event) => (event.at === 6 ? resumed : event))
    expect(checkHistory(unsaid).violations.map(({ kind }) => kind)).toEqual(['fence-repeated', 'fence-order'])
  })

  test('is summed up', () => {
    const { summary } = checkHistory(simulated(1, 'mutex', 0))
    expect(summary.clients).toBe(5)
    expect(summary.turnsMax).toBeGreaterThanOrEqual(summary.turnsMin)
    expect(summary.handOvers).toBeGreaterThan(10)
    expect(summary.handOverMs.p50).toBeGreaterThan(0)
    expect(summary.handOverMs.max).toBeGreaterThanOrEqual(summary.handOverMs.p99)
  })

  test('of a hundred thousand holds is checked without a search: one that looked at pairs would not end', () => {
    const events: HistoryEvent[] = []
    for (let turn = 0; turn < 100_000; turn += 1) {
      const [at, attempt, client] = [turn * 10, `a${turn}`, `c${turn % 7}`]
      events.push(
        { at, type: 'acquire', client, attempt, key: 'key', mode: 'exclusive' },
        { at: at + 1, type: 'granted', attempt, fence: turn + 1, deadline: at + 100 },
        { at: at + 5, type: 'release', attempt },
      )
    }
    expect(checkHistory(events, { gaps: true }).violations).toEqual([])
  })
})

describe('a planted fault is found', () => {
  for (const [title, planting] of Object.entries(plantings)) {
    const { trade, kind } = planting
    test(title, () => {
      let planted = 0
      for (let seed = 0; seed < rounds(20, 60); seed += 1) {
        const events = planting.plant(simulated(seed, trade, 0), seededRandom(seed))
        if (events === undefined) continue
        planted += 1
        const { violations } = checkHistory(events, { gaps: kind === 'fence-gap' })
        expect(
          violations.map((one) => one.kind),
          `seed ${seed}`,
        ).toContain(kind)
      }
      expect(planted).toBeGreaterThan(rounds(10, 30))
    })
  }
})

describe('the checker and brute force', () => {
  test('find the same in small random histories', () => {
    const tally = new Map<string, number>()
    for (let seed = 0; seed < rounds(3000, 8000); seed += 1) {
      const events = scribble(seededRandom(seed))
      const expected = bruteForce(events)
      const found = new Set(checkHistory(events).violations.map(({ kind }) => kind))
      // Held together is told as an overlap, not once more as an order.
      if (expected.has('overlap') || found.has('overlap')) {
        expected.delete('fence-order')
        found.delete('fence-order')
      }
      expect([...found].toSorted(), `seed ${seed}: ${JSON.stringify(events)}`).toEqual([...expected].toSorted())
      for (const kind of expected.size === 0 ? ['none'] : expected) tally.set(kind, (tally.get(kind) ?? 0) + 1)
    }
    for (const kind of ['none', 'overlap', 'fence-repeated', 'fence-order', 'unfair']) {
      expect(tally.get(kind), kind).toBeGreaterThan(rounds(30, 100))
    }
  })
})

/** A few claims at random times with random fences: seldom right, often nearly so. */
function scribble(random: () => number): HistoryEvent[] {
  const events: HistoryEvent[] = []
  const pick = <Value>(values: readonly [Value, ...Value[]]) =>
    values[Math.floor(random() * values.length)] ?? values[0]
  const orderly = random() < 0.5
  let at = 0
  for (let index = 0; index < 2 + Math.floor(random() * 4); index += 1) {
    const attempt = `a${index}`
    const client = `c${index}`
    const invoked = orderly ? at : Math.floor(random() * 30)
    const mode = pick(['exclusive', 'shared'] as const)
    const start = Math.floor(random() * 4)
    events.push({
      at: invoked,
      type: 'acquire',
      client,
      attempt,
      key: 'key',
      mode,
      ...(mode === 'shared' && random() < 0.5 && { limit: 2 }),
      ...(random() < 0.3 && { range: { start, end: start + 1 + Math.floor(random() * 3) } }),
      ...(random() < 0.2 && { priority: 1 }),
    })
    const returned = invoked + 1 + Math.floor(random() * 8)
    if (random() < 0.5) events.push({ at: invoked + 0.5, type: 'queued', attempt })
    if (random() < 0.1) continue
    const fence = orderly && random() < 0.8 ? index + 1 : 1 + Math.floor(random() * 6)
    const deadline = returned + Math.floor(random() * 20)
    events.push({ at: returned, type: 'granted', attempt, fence, deadline })
    const released = returned + 1 + Math.floor(random() * 10)
    const end = pick(['release', 'lost', 'crash', 'pause', 'none'] as const)
    if (end === 'crash' || end === 'pause') events.push({ at: released, type: end, client })
    else if (end !== 'none') events.push({ at: released, type: end, attempt })
    at = released + 1
  }
  return events.toSorted((one, other) => one.at - other.at)
}

describe('a log', () => {
  test('of several processes is one history, and a torn last line is left out', () => {
    const folder = makeFolder('history')
    try {
      const files = ['one', 'two'].map((name) => path.join(folder, name))
      for (const [index, file] of files.entries()) {
        using log = historyLog(file)
        log.write({
          type: 'acquire',
          client: file,
          attempt: `a${index}`,
          key: 'key',
          mode: 'exclusive',
          at: 10 - index,
        })
        log.write({ type: 'granted', attempt: `a${index}`, fence: index + 1 })
      }
      appendFileSync(files[0] ?? '', '{"type":"release","att')
      const events = readHistory(files)
      expect(events.map(({ type }) => type)).toEqual(['acquire', 'acquire', 'granted', 'granted'])
      expect(events[0]).toMatchObject({ attempt: 'a1' })
      expect(events.map(({ at }) => at)).toEqual(events.map(({ at }) => at).toSorted((one, other) => one - other))
    } finally {
      removeFolder(folder)
    }
  })
})

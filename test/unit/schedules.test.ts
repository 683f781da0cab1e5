import { expect, test } from 'vitest'
import { openWithShortLeases } from '../../prove/simulate/planted.ts'
import { scheduleOf, type Reduction, type Schedule } from '../../prove/simulate/schedules.ts'
import { parseReduction, reductionWord, shrink } from '../../prove/simulate/shrink.ts'
import { withoutStacks } from './support/short-errors.ts'

withoutStacks()

const minutes = { timeout: 180_000 }

test('the same seed has the same story, with nothing wrong', minutes, async () => {
  for (const seed of [1, 7, 16]) {
    const schedule = scheduleOf(seed)
    const played = await schedule.play()
    expect({ seed, wrong: played.wrong }).toEqual({ seed, wrong: [] })
    expect(await schedule.play()).toEqual(played)
  }
})

test('a schedule of a planted fault is made smaller, and replayed from one word', minutes, async () => {
  const schedule = scheduleOf(7, openWithShortLeases)
  const found = await shrink(schedule)
  expect(found?.reduction).toMatchObject({ processes: 1, workers: 1 })
  expect(found?.reduction.ms).toBeLessThan(schedule.size.ms / 10)
  expect(await schedule.play(parseReduction(reductionWord(found?.reduction ?? {})))).toEqual(found?.played)
})

test('shrinking leaves the faults, processes and workers that a violation needs, and no others', async () => {
  const needed = [3, 41, 97]
  const schedule: Schedule = {
    name: 'that needs three faults of a hundred, and two processes',
    size: { processes: 5, workers: 4, ms: 20_000 },
    async play({ processes = 5, faults }: Reduction = {}) {
      const isWrong = processes >= 2 && needed.every((fault) => faults?.has(fault) ?? true)
      return { wrong: isWrong ? ['two held'] : [], holds: 1, faults: 100, hash: '' }
    },
  }
  const found = await shrink(schedule)
  expect([...(found?.reduction.faults ?? [])]).toEqual(needed)
  expect(found?.reduction).toMatchObject({ processes: 2, workers: 1 })
})

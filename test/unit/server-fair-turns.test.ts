import { expect, test } from 'vitest'
import { FairTurns } from '../../src/server/http/fair-turns.ts'

const large = 100_000

test('a caller that is alone begins its first call at once, and small ones together', () => {
  const turns = new FairTurns()
  expect(turns.enter('one', large)).toBeUndefined()
  const other = Array.from({ length: 20 }, () => turns.enter('other', 100))
  expect(other.filter((turn) => turn !== undefined)).toEqual([])
})

test('a caller with one call waits for one turn at most, however many calls another has sent', async () => {
  const turns = new FairTurns()
  const order: string[] = []
  const enter = async (caller: string): Promise<void> => {
    await turns.enter(caller, large)
    order.push(caller)
  }
  const flood = Array.from({ length: 50 }, () => enter('flood'))
  const late = new Promise((resolve) => setImmediate(() => resolve(enter('victim'))))
  await Promise.all([...flood, late])
  expect(order.indexOf('victim')).toBeLessThan(5)
  expect(order).toHaveLength(51)
})

test('the calls of a caller begin in the order in which they came', async () => {
  const turns = new FairTurns()
  const order: number[] = []
  const sizes = [large, 10, large, 10, 10, large, large]
  await Promise.all(
    sizes.map(async (size, index) => {
      await turns.enter('one', size)
      order.push(index)
    }),
  )
  expect(order).toEqual(sizes.map((_, index) => index))
})

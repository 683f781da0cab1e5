import { expect, test } from 'vitest'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { expectExactEnds, expectHandOvers } from '../support/exact-end.ts'
import { opened } from '../support/opened.ts'
import { scratch } from '../sqlite/scratch.ts'

const { file } = scratch()

/** A store whose clock the test moves. */
async function storeInTime() {
  let time = 5000
  const clock = { now: () => time, wall: () => 1_700_000_000_000 + time }
  const driver = await opened(sqlite({ file: file(), environment: { clock } }))
  return { driver, advance: async (milliseconds: number): Promise<void> => void (time += milliseconds) }
}

test.each(['alone', 'at once'] as const)(
  'at the exact end of a lease it is over for requests that come %s',
  async (way) => {
    const { driver, advance } = await storeInTime()
    await expectExactEnds(driver, advance, way)
    expect((await driver.list({})).keys.length).toBeGreaterThan(0)
  },
)

test('a hand-over to a claim that is not plain, or behind one that is over, is as the rule says', async () => {
  const { driver, advance } = await storeInTime()
  await expectHandOvers(driver, advance)
  expect((await driver.list({})).keys.length).toBeGreaterThan(0)
})

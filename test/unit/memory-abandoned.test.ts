import { expect, test } from 'vitest'
import { memory } from '../../src/drivers/memory/driver.ts'
import { fakeTime } from '../../src/testing/fake-time.ts'
import { claim, claimOf, release } from '../support/claims.ts'

test('names of those who died holding them do not stay for ever', async () => {
  const time = fakeTime()
  const driver = memory({ clock: time.clock })
  const abandoned = async (): Promise<number> => {
    const { keys } = await driver.list({ prefix: 'died/', limit: 1000 })
    return keys.length
  }
  const useOthers = async (): Promise<void> => {
    for (let number = 0; number < 3000; number += 1) {
      const wanted = claimOf(`lives/named:${number}`)
      await claim(driver, wanted)
      await release(driver, wanted)
    }
  }
  for (let number = 0; number < 1500; number += 1) await claim(driver, claimOf(`died/named:${number}`, { ttlMs: 1000 }))
  await claim(driver, claimOf('long/named:one', { ttlMs: 86_400_000 }))
  await time.advance(1_800_000)
  await useOthers()
  // They are shown for a while: somebody may want to know.
  expect(await abandoned()).toBe(1000)
  await time.advance(3_600_000)
  await useOthers()
  expect(await abandoned()).toBeLessThan(1000)
  expect((await driver.list({ key: 'long/named:one' })).keys).toHaveLength(1)
})

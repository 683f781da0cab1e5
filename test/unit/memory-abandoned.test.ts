import { expect, onTestFinished, test } from 'vitest'
import { memory } from '../../src/drivers/memory/driver.ts'
import { fakeTime } from '../../src/testing/fake-time.ts'
import { claim, claimOf, claiming, release } from '../support/claims.ts'

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

test('very many names that are used once are forgotten soon, so that they do not fill the memory', async () => {
  let now = 0
  const driver = memory({ clock: { now: () => now, wall: () => 1_700_000_000_000 + now } })
  await driver.open()
  onTestFinished(() => driver.close())
  const seconds = 1500
  for (let second = 0; second < seconds; second += 1) {
    now += 1000
    const claims = Array.from({ length: 100 }, (_, index) => claimOf(`a/named:${second}-${index}`, { ttlMs: 1 }))
    await driver.send(claims.map(claiming))
  }
  let kept = 0
  let after: string | undefined
  do {
    const page = await driver.list({ prefix: 'a/', limit: 1000, ...(after !== undefined && { after }) })
    kept += page.keys.length
    after = page.next
  } while (after !== undefined)
  expect(kept).toBeLessThan((seconds * 100) / 2)
})

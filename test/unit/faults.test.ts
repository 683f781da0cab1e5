import { describe, expect, test } from 'vitest'
import { memory } from '../../src/drivers/memory/driver.ts'
import type { Request } from '../../src/core/contract/driver.ts'
import { faulty } from '../../src/testing/index.ts'
import { claimOf } from './admission/play.ts'

const claim = (id: string): Request => ({ op: 'claim', claim: claimOf(id, { ttlMs: 60_000 }) })

async function idsIn(driver: ReturnType<typeof memory>): Promise<readonly string[]> {
  const { keys } = await driver.list({})
  return keys.flatMap(({ claims }) => claims.map(({ id }) => id))
}

describe('a faulty driver', () => {
  test('without a plan is the driver behind it', async () => {
    const driver = faulty(memory())
    expect(await driver.send([claim('one')])).toMatchObject([{ state: 'held' }])
    expect(driver.faults).toBe(0)
  })

  test('that rejects has sent nothing', async () => {
    const driver = faulty(memory(), { reject: 1 })
    await expect(driver.send([claim('one')])).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(await idsIn(driver)).toEqual([])
  })

  test('that drops a reply has carried it out', async () => {
    const driver = faulty(memory(), { dropReply: 1 })
    expect(await driver.send([claim('one'), claim('two')])).toMatchObject([{ state: 'unknown' }, { state: 'unknown' }])
    expect(await idsIn(driver)).toEqual(['one', 'two'])
  })

  test('that hangs fails once the plan changes, having sent nothing', async () => {
    const driver = faulty(memory(), { hang: 1 })
    const sending = driver.send([claim('one')])
    driver.plan = {}
    await expect(sending).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(await idsIn(driver)).toEqual([])
  })

  test('that repeats requests answers with the second answer', async () => {
    const driver = faulty(memory(), { duplicate: 1 })
    await driver.send([claim('one')])
    const [released] = await driver.send([{ op: 'release', key: 'key', id: 'one' }])
    expect(released).toEqual({ state: 'absent', reason: 'unknown' })
  })

  test('drops news', async () => {
    const driver = faulty(memory(), { dropNotifications: 1 })
    let received = 0
    driver.listen?.(() => (received += 1))
    await driver.send([claim('one'), claim('two'), { op: 'release', key: 'key', id: 'one' }])
    await Promise.resolve()
    expect(received).toBe(0)
    driver.plan = {}
    await driver.send([claim('three'), { op: 'release', key: 'key', id: 'two' }])
    await Promise.resolve()
    expect(received).toBe(1)
  })

  test('spares the requests it is not meant for, and repeats itself for the same seed', async () => {
    const outcomes = async () => {
      const driver = faulty(memory(), { reject: 0.5, only: ({ op }) => op === 'claim' }, 7)
      await driver.send([{ op: 'release', key: 'key', id: 'nobody' }])
      const results = await Promise.allSettled(
        Array.from({ length: 20 }, (_, index) => driver.send([claim(`${index}`)])),
      )
      return results.map(({ status }) => status)
    }
    const first = await outcomes()
    expect(new Set(first).size).toBe(2)
    expect(await outcomes()).toEqual(first)
  })
})

/** A Galera cluster of two nodes that both take writes: locks of clients of one and of the other exclude each other. */
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { mysql } from '../../src/drivers/mysql/driver.ts'
import { compareWithModel } from '../../src/testing/index.ts'
import { claim, claimOf, fenceOf, release, renew } from '../support/claims.ts'
import { rounds } from '../support/extent.ts'
import { startGalera } from '../support/galera-cluster.ts'
import { locksOn, opened } from '../support/opened.ts'

const nodes = await startGalera()
afterAll(async () => {
  for (const node of nodes) await node.stop()
})
const [one, other] = nodes

test('what one node has answered the other knows at once', async () => {
  const [here, there] = [await opened(mysql(one.database)), await opened(mysql(other.database))]
  for (let round = 0; round < 50; round += 1) {
    const held = claimOf('seen')
    const fence = fenceOf(await claim(here, held))
    expect(await renew(there, held)).toMatchObject({ state: 'held', fence })
    expect(await release(there, held)).toEqual({ state: 'absent', reason: 'released' })
    expect(await renew(here, held)).toMatchObject({ state: 'absent' })
  }
})

test('clients of both nodes take turns: never two holders, fences grow, and lost certifications are tried again', async () => {
  const table = 'turns'
  // One makes the table, so that the others find it.
  await opened(mysql(one.database, { table }))
  const clients = await Promise.all(
    [one, other, one, other].map(({ database }) => locksOn(mysql(database, { table, waitMax: 30 }))),
  )
  let holders = 0
  const fences: number[] = []
  await Promise.all(
    clients.map(async (locks) => {
      for (let turn = 0; turn < 20; turn += 1) {
        const lease = await locks.acquire('hot', { ttl: '60s', wait: '100s' })
        holders += 1
        expect(holders).toBe(1)
        fences.push(lease.fence)
        await pause(1)
        holders -= 1
        await lease.release()
      }
    }),
  )
  expect(fences).toHaveLength(80)
  expect(fences).toEqual(fences.toSorted((a, b) => a - b))
  expect(new Set(fences).size).toBe(80)
})

test('answers as the rule does on random commands, whichever node is asked', { timeout: 300_000 }, async () => {
  let tables = 0
  const { commands, counterexample } = await compareWithModel(
    {
      async open() {
        const table = `model_${(tables += 1)}`
        const drivers = new Set<ReturnType<typeof mysql>>()
        let time = Date.now()
        return {
          async driver() {
            const { database } = drivers.size % 2 === 0 ? one : other
            const driver = mysql(database, { table, waitMin: 2, waitMax: 20, clockForTests: () => time })
            drivers.add(driver)
            await driver.open()
            return driver
          },
          async advance(ms) {
            time += ms
          },
          async close() {
            for (const driver of drivers) await driver.close()
          },
        }
      },
    },
    { runs: rounds(10, 40), timeLimitMs: 250_000 },
  )
  expect(counterexample).toBeUndefined()
  expect(commands).toBeGreaterThanOrEqual(rounds(200, 1000))
})

test('opening says that each node has a clock of its own', async () => {
  const driver = await opened(mysql(one.database))
  expect(driver.warnings).toEqual([expect.stringMatching(/^Each node of this cluster judges leases by its own clock/)])
})

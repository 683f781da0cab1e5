import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import type { Request } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { claimOf } from '../support/claims.ts'

/** Bun has its own collector; V8 shows its own to those who ask. */
function collector(): () => void {
  const { Bun: bun } = globalThis as { Bun?: { gc(synchronously: boolean): void } }
  if (bun !== undefined) return () => bun.gc(true)
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as () => void
}
const collect = collector()

function heapMb(): number {
  collect()
  return process.memoryUsage().heapUsed / 1e6
}

test.each([
  ['few names at once', 0],
  // Then it goes through them in passing, to forget what was abandoned.
  ['more names than it keeps anyway', 1200],
])('the memory store does not grow with the locks that were taken and released: %s', async (_what, held) => {
  const driver = memory()
  const pairs = async (count: number): Promise<void> => {
    for (let number = 0; number < count; number += 100) {
      const requests = Array.from({ length: 100 }, (_, index): Request[] => {
        const claim = claimOf(`name ${number + index}`)
        return [
          { op: 'claim', claim },
          { op: 'release', key: claim.key, id: claim.id },
        ]
      })
      await driver.send(requests.flat())
    }
  }
  for (let number = 0; number < held; number += 1)
    await driver.send([{ op: 'claim', claim: claimOf(`held ${number}`) }])
  await pairs(10_000)
  const before = heapMb()
  await pairs(100_000)
  // An iterator that is kept made it 15 MB.
  expect(heapMb() - before).toBeLessThan(5)
  await driver.close()
})

import { expect, test } from 'vitest'
import type { Claim, ClaimStatus } from '../../src/core/contract/driver.ts'
import { resolveLimits } from '../../src/server/contract/limits.ts'
import { ClaimWaits } from '../../src/server/store/claim-waits.ts'
import { ServerMetrics } from '../../src/server/store/metrics.ts'
import type { StoreFacade } from '../../src/server/store/store-facade.ts'
import { fakeTime } from '../../src/testing/index.ts'
import { claimOf } from '../support/claims.ts'

test('a release ends the calls that wait for its claim, and looks at no other', async () => {
  const time = fakeTime()
  let looks = 0
  const store = {
    supports: { push: true },
    watch: () => ({ [Symbol.dispose]: () => {} }),
    isWatched: () => false,
  } as unknown as StoreFacade
  const waits = new ClaimWaits(store, time.environment, new ServerMetrics(), resolveLimits())
  const waiting: ClaimStatus = { state: 'waiting', ahead: 1, ttlMs: 60_000, againMs: 60_000 }
  const follow = (claim: Claim) =>
    waits.follow({
      claim,
      waitMs: 60_000,
      isGivenId: false,
      signal: new AbortController().signal,
      submit: async ({ op }) => (op === 'release' ? { state: 'absent', reason: 'released' } : waiting),
    })
  const ours = claimOf('shop/named:orders')
  const [one, other] = [follow(ours), follow(ours)]
  const others = Array.from({ length: 1000 }, (_, index) => follow(claimOf(`shop/named:${index}`)))
  await time.advance(0)
  const released = {
    key: ours.key,
    get id() {
      looks += 1
      return ours.id
    },
  }
  waits.cancel(released)
  expect(await Promise.all([one, other])).toEqual([{ how: 'cancelled' }, { how: 'cancelled' }])
  expect(looks).toBeLessThan(10)
  waits.close()
  expect(new Set((await Promise.all(others)).map(({ how }) => how))).toEqual(new Set(['interrupted']))
})

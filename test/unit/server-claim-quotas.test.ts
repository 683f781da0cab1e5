import { expect, test } from 'vitest'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { resolveLimits } from '../../src/server/contract/limits.ts'
import { ClaimQuotas } from '../../src/server/store/claim-quotas.ts'
import { ServerMetrics } from '../../src/server/store/metrics.ts'
import { claimOf, claiming } from '../support/claims.ts'

const yearMs = 31_536_000_000

test('a claim for a year that is released leaves no name behind, nor does a renewal of an id that is unknown', () => {
  const quotas = new ClaimQuotas({
    limits: resolveLimits(),
    environment: systemEnvironment(),
    metrics: new ServerMetrics(),
  })
  for (let count = 0; count < 100; count += 1) {
    const claim = claimOf('builds/named:nightly', { ttlMs: yearMs })
    const { key, id, ttlMs } = claim
    const requests = [
      claiming(claim),
      { op: 'release', key, id },
      { op: 'renew', key, id: `${id}-unknown`, ttlMs },
    ] as const
    for (const request of requests) quotas.admit(request, 'ci')
    const [made, released, unknown] = requests
    quotas.answered(made, { state: 'held', fence: 1, ttlMs })
    quotas.answered(released, { state: 'absent', reason: 'released' })
    quotas.answered(unknown, { state: 'absent', reason: 'unknown' })
  }
  expect(quotas.namesKept).toBe(0)
})

test('renewals of made-up ids while the store does not answer cost nobody a place, and a renewal is never refused', () => {
  const limits = resolveLimits({ claimsInAllMax: 100, claimsPerTokenMax: 50 })
  const quotas = new ClaimQuotas({ limits, environment: systemEnvironment(), metrics: new ServerMetrics() })
  const renewals = Array.from({ length: 300 }, (_, index) => {
    return { op: 'renew', key: 'builds/named:nightly', id: `made-up-${index}`, ttlMs: yearMs } as const
  })
  // All of them at once, so that none is answered before the last is counted.
  for (const request of renewals) expect(quotas.admit(request, 'stranger')).toBeUndefined()
  expect(quotas.admit(claiming(claimOf('shop/named:orders')), 'shop')).toBeUndefined()
  for (const request of renewals) quotas.answered(request, { state: 'unknown', error: new Error('no answer') })
  expect(quotas.namesKept).toBe(1)
})

test('a claim counts until its last renewal is over, and its grace after that, and no longer', () => {
  let now = 0
  const quotas = new ClaimQuotas({
    limits: resolveLimits({ claimsPerTokenMax: 1 }),
    environment: { now: () => now },
    metrics: new ServerMetrics(),
  })
  const claim = claimOf('builds/named:nightly', { ttlMs: 10_000, graceMs: 5000 })
  const { key, id, ttlMs } = claim
  const requests = [claiming(claim), { op: 'renew', key, id, ttlMs }] as const
  for (const [index, request] of requests.entries()) {
    now = index * 8000
    expect(quotas.admit(request, 'ci')).toBeUndefined()
    quotas.answered(request, { state: 'held', fence: 1, ttlMs })
  }
  const refused = (): unknown => quotas.admit(claiming(claimOf('builds/named:weekly')), 'ci')
  for (now of [15_000, 16_000, 18_000, 22_000]) expect(refused()).toMatchObject({ reason: 'busy' })
  now = 8000 + ttlMs + claim.graceMs
  expect(refused()).toBeUndefined()
})

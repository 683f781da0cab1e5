import { describe, expect, test } from 'vitest'
import { connect, type Lease, type Locks } from '../../src/index.ts'
import { openTelemetry } from '../../src/telemetry/opentelemetry.ts'
import type { Meter } from '../../src/telemetry/opentelemetry/interface.ts'
import { prometheus } from '../../src/telemetry/prometheus.ts'
import { webLocks } from '../../src/web-locks/index.ts'

const refused = expect.objectContaining({
  code: 'INVALID',
  message: expect.stringMatching(/locks of connect/) as string,
})

describe('a test double of locks', () => {
  // What a user's test has: nothing of it is asked for before it is refused.
  const double = {} as Locks

  test.each<[string, () => unknown]>([
    ['webLocks', () => webLocks(double)],
    ['prometheus', () => prometheus(double)],
    ['openTelemetry', () => openTelemetry(double, { meter: {} as Meter })],
  ])('is refused by %s, which needs what is inside', (_name, use) => {
    expect(use).toThrow(refused as Error)
  })

  test('may wrap a real one, which is what those take', async () => {
    await using locks = await connect('memory:')
    const wrapped: Pick<Locks, 'acquire'> = { acquire: (scope) => locks.acquire(scope, { ttl: '9s' }) }
    const lease: Lease = await wrapped.acquire('a')
    expect(lease.remainingMs).toBeLessThanOrEqual(9000)
    expect(() => webLocks(wrapped as Locks)).toThrow(refused as Error)
    expect(() => webLocks(locks)).not.toThrow()
  })
})

/** How long a lock in S3 stays taken after its holder has crashed. The bounds are those of docs/stores/s3.md. */
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { createLocks, type Locks } from '../../src/index.ts'
import { s3 } from '../../src/drivers/s3/driver.ts'
import { S3Proxy } from '../support/s3-proxy.ts'
import { freshS3Prefix, S3Server } from '../support/s3-server.ts'

const server = await S3Server.start()
afterAll(() => server.stop())

const ttlMs = 12_000

async function locksAt(prefix: string, port = server.port): Promise<Locks> {
  // As far apart as by default.
  const pace = { waitMin: '200ms', waitMax: '2s', readsPerSecond: 5 } as const
  const driver = s3({ ...server.options(prefix, { port }), ...pace })
  const locks = await createLocks({ driver, defaults: { ttl: ttlMs } })
  onTestFinished(() => locks.close())
  return locks
}

/** A holder, and what ends it as a crash would: nothing that it sends arrives any more. */
async function holderOf(prefix: string): Promise<() => number> {
  const proxy = await S3Proxy.start(server)
  const locks = await locksAt(prefix, proxy.port)
  const lease = await locks.acquire('a')
  lease.signal.addEventListener('abort', () => {})
  return () => {
    proxy.decide = () => ({ cut: 'before' })
    return performance.now()
  }
}

test.concurrent('a waiter in line has the lock within 1.2 ttls of the crash', async () => {
  const prefix = freshS3Prefix()
  const crash = await holderOf(prefix)
  const waiting = await locksAt(prefix)
  const acquired = waiting.acquire('a', { wait: '60s' })
  // The waiter has seen renewals come before.
  await new Promise((resolve) => setTimeout(resolve, ttlMs / 2))
  const crashedAt = crash()
  expect((await acquired).fence).toBeGreaterThan(0)
  expect(performance.now() - crashedAt).toBeLessThanOrEqual(1.2 * ttlMs)
})

test.concurrent('a newcomer, who has seen nothing of the holder, has it within 2.2 ttls', async () => {
  const prefix = freshS3Prefix()
  const crash = await holderOf(prefix)
  const crashedAt = crash()
  const newcomer = await locksAt(prefix)
  // At the last moment at which somebody else could not have taken over.
  await new Promise((resolve) => setTimeout(resolve, ttlMs))
  expect((await newcomer.acquire('a', { wait: '60s' })).fence).toBeGreaterThan(0)
  expect(performance.now() - crashedAt).toBeLessThanOrEqual(2.2 * ttlMs)
})

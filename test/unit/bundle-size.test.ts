/** What an application has to load, minified and gzipped. A bar that is reached says: look at what came in. */
import { expect, test } from 'vitest'
import { bundle } from '../support/bundle.ts'

const createLocks = `export { createLocks } from './src/index.ts'`

const bars: readonly { readonly what: string; readonly of: string; readonly kilobytesMax: number }[] = [
  { what: 'leasehold/http', of: `export * from './src/drivers/http/driver.ts'`, kilobytesMax: 15 },
  { what: 'leasehold/edge, with all that it needs', of: `export * from './src/edge/index.ts'`, kilobytesMax: 35 },
  {
    what: 'createLocks and leasehold/http',
    of: `${createLocks}; export * from './src/drivers/http/driver.ts'`,
    kilobytesMax: 48,
  },
  ...[
    'sqlite',
    'redis',
    'postgres',
    'mongodb',
    'mysql',
    'etcd',
    'nats',
    's3',
    'dynamodb',
    'postgres-advisory',
    'github',
    'memory',
  ].map((driver) => ({
    what: `createLocks and leasehold/${driver}`,
    of: `${createLocks}; export * from './src/drivers/${driver}/driver.ts'`,
    // The scripts of Redis are the rule once more, in Lua.
    kilobytesMax: driver === 'redis' ? 75 : 69,
  })),
]

test.each(bars)('$what takes at most $kilobytesMax KB', async ({ of, kilobytesMax }) => {
  const { gzippedBytes } = await bundle(of)
  expect(gzippedBytes).toBeLessThanOrEqual(kilobytesMax * 1000)
  // Less would mean that the bundle is not whole.
  expect(gzippedBytes).toBeGreaterThan(5000)
})

/** Two copies of the package in one process: a test tool may load one as an ES module, and another by `require`. */
import { expect, test, vi } from 'vitest'

async function copy(): Promise<{
  readonly memory: typeof import('../../src/drivers/memory/driver.ts').memory
  readonly createLocks: typeof import('../../src/index.ts').createLocks
  readonly LeaseholdError: typeof import('../../src/index.ts').LeaseholdError
}> {
  vi.resetModules()
  const { memory } = await import('../../src/drivers/memory/driver.ts')
  return { memory, ...(await import('../../src/index.ts')) }
}

test('copies share the memory stores that have a name, and know the errors of each other', async () => {
  const first = await copy()
  const second = await copy()
  expect(first.memory).not.toBe(second.memory)
  const locks = await first.createLocks({ driver: first.memory({ name: 'copies' }) })
  const others = await second.createLocks({ driver: second.memory({ name: 'copies' }) })
  const lease = await locks.acquire('job')
  expect(await others.tryAcquire('job')).toBeNull()
  await lease.release()
  const error: unknown = await others.acquire('job', { ttl: -1 }).catch((thrown: unknown) => thrown)
  expect(error instanceof first.LeaseholdError && error instanceof second.LeaseholdError).toBe(true)
  expect(new Error('another') instanceof first.LeaseholdError).toBe(false)
  await locks.close()
  await others.close()
})

test('a class that extends the error has instances of its own', async () => {
  const { LeaseholdError } = await copy()
  class Narrower extends LeaseholdError {}
  expect(new LeaseholdError('LOST', 'gone') instanceof Narrower).toBe(false)
  expect(new Narrower('LOST', 'gone') instanceof LeaseholdError).toBe(true)
})

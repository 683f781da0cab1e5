import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { connect } from '../../src/index.ts'
import { cliBench } from './support/cli-bench.ts'
import { folderForTest } from '../support/test-folder.ts'

let folder: string
beforeEach(() => {
  folder = folderForTest('conflicts')
  vi.stubEnv('LEASEHOLD_STATE_DIR', folder)
})
afterEach(() => {
  vi.unstubAllEnvs()
})

describe('a runner with a name', () => {
  test('reclaims what it held before, and nobody else does', async () => {
    const { leasehold } = cliBench()
    const reclaim = (runner: string) =>
      leasehold('run', 'a', '--runner', runner, '--on-conflict', 'reclaim', '--no-wait', '--', 'true')
    const proof = path.join(folder, 'proof')
    expect(await leasehold('acquire', 'a', '--runner', 'one', '--ttl', '10m', '--proof', proof)).toBe(0)
    expect(await reclaim('other')).toBe(75)
    expect(await reclaim('one')).toBe(0)
    expect(await leasehold('release', '--proof', proof)).toBe(76)
  })

  test('is told that there is nothing to reclaim without a name', async () => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold('run', 'a', '--on-conflict', 'reclaim', '--', 'true')).toBe(64)
    expect(shown.errors).toContain('needs --runner NAME')
  })

  test('has the name alone', async () => {
    const { leasehold, shown } = cliBench()
    await using locks = await connect('memory:', { runner: 'one' })
    expect(locks.runner.pid).toBe(process.pid)
    expect(await leasehold('run', 'a', '--runner', 'one', '--', 'true')).toBe(75)
    expect(shown.errors).toContain('The runner name "one" is in use')
  })
})

describe('--stale-after', () => {
  test('says after which silence a lock is stolen', async () => {
    const { store, leasehold } = cliBench()
    await using locks = await connect(store)
    await locks.acquire('a', { ttl: '10m', heartbeat: 'manual' })
    const steal = (after: string) =>
      leasehold('run', 'a', '--on-conflict', 'steal-stale', '--stale-after', after, '--no-wait', '--', 'true')
    expect(await steal('1h')).toBe(75)
    await expect.poll(() => steal('1ms')).toBe(0)
  })

  test('goes with steal-stale', async () => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold('run', 'a', '--stale-after', '1m', '--', 'true')).toBe(64)
    expect(shown.errors).toContain('goes with --on-conflict steal-stale')
  })
})

test('to wait and not to wait is a contradiction', async () => {
  const { leasehold, shown } = cliBench()
  expect(await leasehold('run', 'a', '--no-wait', '--wait', '3s', '--', 'true')).toBe(64)
  expect(await leasehold('acquire', 'a', '--no-wait', '--wait', '3s', '--ttl', '1m', '--proof', 'p')).toBe(64)
  expect(shown.errors.match(/takes --wait DURATION or --no-wait, not both/g)).toHaveLength(2)
})

test('--quiet says nothing about waiting, and still that the previous holder did not release the lock', async () => {
  const { store, leasehold, shown } = cliBench()
  await using locks = await connect(store)
  await locks.acquire('a')
  expect(await leasehold('run', 'a', '--on-conflict', 'force', '--quiet', '--', 'true')).toBe(0)
  expect(shown.errors).toMatch(/^leasehold: the previous holder did not release the lock \(evicted\): .*\n$/)
})

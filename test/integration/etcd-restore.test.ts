import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { etcd } from '../../src/drivers/etcd/driver.ts'
import { claim, claimOf, release } from '../support/claims.ts'
import { EtcdServer } from '../support/etcd-server.ts'
import { eventually } from '../support/eventually.ts'
import { opened } from '../support/opened.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

const server = await EtcdServer.start()
afterAll(() => server.stop())

/** Takes the lock and lets it go, as soon as etcd answers; resolves to the fence. */
function fenceAfterTurn(driver: LockDriver): Promise<number> {
  return eventually(async () => {
    const wanted = claimOf('orders/42', { ttlMs: 5000 })
    const status = await claim(driver, wanted).catch(() => undefined)
    await release(driver, wanted).catch(() => undefined)
    return status?.state === 'held' && status.fence
  }, 'a turn')
}

describe('a snapshot that is restored', () => {
  test('brings back no fence, whether the driver was open or not', async () => {
    const before = await opened(etcd(server.url, { prefix: 'fences/' }))
    const fences = [await fenceAfterTurn(before), await fenceAfterTurn(before)]
    const snapshot = await server.saveSnapshot()
    for (let turn = 0; turn < 5; turn += 1) fences.push(await fenceAfterTurn(before))
    await server.restore(snapshot)
    fences.push(
      await fenceAfterTurn(before),
      await fenceAfterTurn(await opened(etcd(server.url, { prefix: 'fences/' }))),
    )
    expect(fences).toEqual([...new Set(fences)].toSorted((one, other) => one - other))
  })

  test('lets no driver write by a revision that it knows from before', async () => {
    const proxy = await TcpProxy.start(server)
    onTestFinished(() => proxy.stop())
    const [stale, other] = [
      await opened(etcd(`etcd://127.0.0.1:${proxy.port}`, { prefix: 'again/' })),
      await opened(etcd(server.url, { prefix: 'again/' })),
    ]
    const wanted = () => claimOf('k', { ttlMs: 120_000, wait: false })
    const revisionOf = async (): Promise<number> => {
      const found = await server.control('get', 'again/lock/k', '-w', 'json')
      return (JSON.parse(found) as { kvs: { mod_revision: number }[] }).kvs[0]?.mod_revision ?? 0
    }
    // The etcd lease of the stale driver is part of the snapshot, and fresh.
    const first = wanted()
    await claim(stale, first)
    await release(stale, first)
    const snapshot = await server.saveSnapshot()
    for (let turn = 0; turn < 5; turn += 1) {
      const again = wanted()
      expect(await claim(stale, again)).toMatchObject({ state: 'held' })
      await release(stale, again)
    }
    const known = await revisionOf()
    // Cut off meanwhile, it cannot notice.
    proxy.pause()
    proxy.cut()
    await server.restore(snapshot)
    // What others write meanwhile brings the store to that revision once more.
    const holder = wanted()
    await eventually(() => other.list({}).then(Boolean, () => false), 'an answer')
    const lease = wanted()
    await claim(other, { ...lease, key: 'elsewhere' })
    while (!(await server.control('endpoint', 'status', '-w', 'json')).includes(`"revision":${known - 1},`)) {
      await server.control('put', 'somewhere', 'else')
    }
    expect(await claim(other, holder)).toMatchObject({ state: 'held' })
    expect(await revisionOf()).toBe(known)
    const asking = claim(stale, wanted())
    proxy.resume()
    expect(await asking).toEqual({ state: 'absent', reason: 'refused' })
  })

  test('leaves no driver deaf, though its revisions are counted again', async () => {
    const [waiter, holder] = [
      await opened(etcd(server.url, { prefix: 'deaf/' })),
      await opened(etcd(server.url, { prefix: 'deaf/' })),
    ]
    const granted = new Set<string>()
    waiter.listen?.((_key, id, status) => void (status !== 'poll' && status.state === 'held' && granted.add(id)))
    const handOver = async (): Promise<void> => {
      const [held, waiting] = [claimOf('k', { ttlMs: 20_000 }), claimOf('k', { ttlMs: 20_000 })]
      expect(await claim(holder, held)).toMatchObject({ state: 'held' })
      expect(await claim(waiter, waiting)).toMatchObject({ state: 'waiting' })
      await release(holder, held)
      await eventually(() => granted.has(waiting.id), 'the notification of the grant', 3000)
      await release(waiter, waiting)
    }
    const snapshot = await server.saveSnapshot()
    for (let write = 0; write < 50; write += 1) await server.control('put', 'somewhere', 'else')
    await handOver()
    await server.restore(snapshot)
    for (const driver of [waiter, holder]) await fenceAfterTurn(driver)
    await handOver()
  })

  test('makes the data young, and so does a restart', async () => {
    const driver = await opened(etcd(server.url, { prefix: 'age/' }))
    const age = async (): Promise<number> => (await driver.dataAgeMs?.()) ?? Infinity
    expect(await age()).toBe(0)
    await eventually(async () => (await age()) >= 2000, 'an age of two seconds')
    const snapshot = await server.saveSnapshot()
    for (const begin of [() => server.restore(snapshot), () => server.kill().then(() => server.start())]) {
      const startedAt = performance.now()
      await begin()
      expect(await eventually(() => age().then(String, () => undefined), 'an answer')).satisfies(
        (said: string) => Number(said) < performance.now() - startedAt,
      )
      await eventually(async () => (await age()) >= 2000, 'an age of two seconds')
    }
  })
})

test('the data is young once the prefix was removed, though the driver is open', async () => {
  const driver = await opened(etcd(server.url, { prefix: 'removed/' }))
  await driver.dataAgeMs?.()
  await eventually(async () => ((await driver.dataAgeMs?.()) ?? 0) >= 2000, 'an age of two seconds')
  const other = await opened(etcd(server.url, { prefix: 'removed/' }))
  expect(await other.dataAgeMs?.()).toBeGreaterThanOrEqual(1000)
  await server.control('del', '--prefix', 'removed/')
  expect(await driver.dataAgeMs?.()).toBe(0)
  await eventually(async () => ((await driver.dataAgeMs?.()) ?? 0) >= 1000, 'an age of a second')
})

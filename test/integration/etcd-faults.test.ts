/** What etcd, the network and operators do to locks that are held, waited for, or just asked for. */
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver } from '../../src/core/driver.ts'
import { claim, claimOf, release, renew } from '../support/claims.ts'
import { EtcdServer, urlOf } from '../support/etcd-server.ts'
import { freshPrefix, markersIn, openEtcd, startProxy } from '../support/etcd-store.ts'
import { eventually } from '../support/eventually.ts'
import type { TcpProxy } from '../support/tcp-proxy.ts'

const server = await EtcdServer.start()
afterAll(() => server.stop())

/** A driver whose connection goes through the proxy; its next one may go straight to the server. */
async function openThrough(proxy: TcpProxy, prefix: string, timeout: number): Promise<LockDriver> {
  for (;;) {
    const driver = await openEtcd(urlOf([proxy, server]), prefix, { timeout })
    if (proxy.connections > 0) return driver
  }
}

/** Claims something which reaches etcd only after the driver has given up on it, and on the connection. */
async function claimLate(driver: LockDriver, proxy: TcpProxy, ttlMs: number, delayMs: number) {
  // On the etcd lease of this one, which is kept alive.
  const kept = claimOf('kept', { ttlMs })
  await claim(driver, kept)
  proxy.delayMs = delayMs
  const late = claimOf('late', { ttlMs })
  expect(await claim(driver, late)).toMatchObject({ state: 'unknown' })
  const beating = setInterval(() => void renew(driver, kept).catch(() => {}), ttlMs / 4)
  onTestFinished(() => clearInterval(beating))
  return late
}

describe('a claim that arrives late', () => {
  test('after its release, lives for one ttl at most, though others of its process are renewed', async () => {
    const prefix = freshPrefix()
    const proxy = await startProxy(server)
    const driver = await openThrough(proxy, prefix, 300)
    const late = await claimLate(driver, proxy, 1500, 600)
    expect(await release(driver, late)).toEqual({ state: 'absent', reason: 'unknown' })
    const arrived = async (): Promise<boolean> => (await markersIn(server, prefix)).some((one) => one.endsWith(late.id))
    await eventually(arrived, 'the late claim')
    await eventually(async () => !(await arrived()), 'its end')
    const other = await openEtcd(server.url, prefix)
    expect(await claim(other, claimOf('late', { wait: false }))).toMatchObject({ state: 'held' })
  })

  test('after its ttl, does not come to be', async () => {
    const prefix = freshPrefix()
    const proxy = await startProxy(server)
    const driver = await openThrough(proxy, prefix, 300)
    await claimLate(driver, proxy, 1000, 3000)
    await eventually(() => proxy.connections === 0, 'all that was on the way')
    const other = await openEtcd(server.url, prefix)
    expect(await claim(other, claimOf('late', { wait: false }))).toMatchObject({ state: 'held' })
  })
})

/** Drivers and clients on a real etcd, each open until its test is over, and readers of what they store. */
import { onTestFinished } from 'vitest'
import type { LockDriver, Notification } from '../../src/core/contract/driver.ts'
import { etcd, type EtcdOptions } from '../../src/drivers/etcd/driver.ts'
import { createLocks, type Locks } from '../../src/index.ts'
import type { Bench } from '../../src/testing/index.ts'
import type { EtcdServer } from './etcd-server.ts'
import { eventually } from './eventually.ts'
import { opened } from './opened.ts'
import { realTimeBench } from './real-time-bench.ts'
import { TcpProxy } from './tcp-proxy.ts'

let stores = 0

/** A part of the store that nobody else uses. */
export const freshPrefix = (): string => `store-${(stores += 1)}/`

export function openEtcd(url: string, prefix: string, options: EtcdOptions = {}): Promise<LockDriver> {
  return opened(etcd(url, { prefix, ...options }))
}

export async function openEtcdLocks(
  url: string,
  prefix: string,
  ttl: number,
  options: EtcdOptions = {},
): Promise<Locks> {
  const locks = await createLocks({ driver: etcd(url, { prefix, ...options }), defaults: { ttl } })
  onTestFinished(() => locks.close())
  return locks
}

/** For the suites that run in real time. */
export function etcdBench(url: string): Bench {
  const prefix = freshPrefix()
  return realTimeBench(() => etcd(url, { prefix }))
}

export async function startProxy({ port }: EtcdServer): Promise<TcpProxy> {
  const proxy = await TcpProxy.start({ port })
  onTestFinished(() => proxy.stop())
  return proxy
}

/** The URL of a server or proxy by its port. */
export const addressOf = ({ port }: { readonly port: number }): string => `etcd://127.0.0.1:${port}`

/** Everything that is stored, by name. */
export async function stored(server: EtcdServer, prefix: string): Promise<string[]> {
  const names = await server.control('get', '--prefix', prefix, '--keys-only')
  return names.split('\n').filter((name) => name !== '')
}

/** The markers of claims that live. */
export async function markersIn(server: EtcdServer, prefix: string): Promise<string[]> {
  return (await stored(server, prefix)).filter((name) => name.startsWith(`${prefix}alive/`))
}

/** The etcd lease of a key; 0 if it has none. */
export async function leaseOf(server: EtcdServer, name: string): Promise<number> {
  const answer = JSON.parse(await server.control('get', name, '-w', 'json')) as { kvs?: { lease?: number }[] }
  return answer.kvs?.[0]?.lease ?? 0
}

/** Notifications of one claim, as they come. */
export function onNotification(driver: LockDriver, id: string): Notification[] {
  const received: Notification[] = []
  const subscription = driver.listen?.((_key, receiver, notification) => receiver === id && received.push(notification))
  onTestFinished(() => subscription?.[Symbol.dispose]())
  return received
}

export function leaderOf(servers: readonly EtcdServer[]): Promise<EtcdServer> {
  return eventually(async () => {
    for (const server of servers) if (await server.isLeader().catch(() => false)) return server
    return undefined
  }, 'a leader')
}

/** Whether somebody has the lock, as soon as the store can say. */
export function whoAnswers(locks: Locks, name: string): Promise<'held' | 'free'> {
  const tryLock = async (): Promise<'held' | 'free'> => ((await locks.tryAcquire(name)) === null ? 'held' : 'free')
  return eventually(() => tryLock().catch(() => undefined), 'an answer')
}

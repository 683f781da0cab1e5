/** Drivers and clients on a real NATS, each open until its test is over, and readers of what they store. */
import { onTestFinished } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { nats, type NatsOptions } from '../../src/drivers/nats/driver.ts'
import { createLocks, type Locks } from '../../src/index.ts'
import type { Bench } from '../../src/testing/index.ts'
import { freshBucket } from './nats-harness.ts'
import { eventually } from './eventually.ts'
import type { NatsServer } from './nats-server.ts'
import { opened } from './opened.ts'
import { realTimeBench } from './real-time-bench.ts'

export function openNats(url: string, bucket: string, options: NatsOptions = {}): Promise<LockDriver> {
  return opened(nats(url, { bucket, syncAlways: true, ...options }))
}

export async function openNatsLocks(
  url: string,
  bucket: string,
  ttl: number,
  options: NatsOptions = {},
): Promise<Locks> {
  const locks = await createLocks({ driver: nats(url, { bucket, syncAlways: true, ...options }), defaults: { ttl } })
  onTestFinished(() => locks.close())
  return locks
}

/** For the suites that run in real time. */
export function natsBench(url: string): Bench {
  const bucket = freshBucket()
  return realTimeBench(() => nats(url, { bucket, syncAlways: true }))
}

/** The URL of a server or proxy by its port. */
export const natsAt = ({ port }: { readonly port: number }): string => `nats://127.0.0.1:${port}`

/** The server that leads the stream of a bucket. */
export function natsLeaderOf(servers: readonly NatsServer[], bucket: string): Promise<NatsServer> {
  return eventually(async () => {
    for (const server of servers.filter(({ isRunning }) => isRunning)) {
      const answer = await server.api(`STREAM.INFO.KV_${bucket}`).catch(() => undefined)
      const leader = servers.find(({ name }) => name === answer?.cluster?.leader)
      if (leader?.isRunning === true) return leader
    }
    return undefined
  }, 'a leader')
}

import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { createClient as createClient5 } from 'redis-5'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver, ClaimStatus } from '../../src/core/contract/driver.ts'
import { inTime as bounded } from '../../src/core/time/bounded.ts'
import { redis, type RedisClient } from '../../src/drivers/redis/driver.ts'
import { claim, claimOf, release } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { opened } from '../support/opened.ts'
import { RedisServer } from '../support/redis-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

const server = await RedisServer.start()
afterAll(() => server.stop())

const commandTimeoutMs = 1000
/** Only a call that hangs takes so long. */
const hangsAfterMs = 60_000
/** More than any client hears while it connects and subscribes. */
const repliesMax = 8

type Way = (port: number) => { readonly url: string } | { readonly client: RedisClient }

const ways: Record<string, Way> = {
  'a URL': (port) => ({ url: `redis://127.0.0.1:${port}` }),
  'a client of ioredis': (port) => {
    const client = new Redis({ port, retryStrategy: () => 20 })
    client.on('error', () => {})
    onTestFinished(() => client.disconnect())
    return { client }
  },
  'a client of node-redis': (port) => {
    const client = createClient({ socket: { port, host: '127.0.0.1', reconnectStrategy: () => 20 } })
    client.on('error', () => {})
    onTestFinished(() => void (client.isOpen && client.destroy()))
    return { client }
  },
  'a client of node-redis 5': (port) => {
    const client = createClient5({ socket: { port, host: '127.0.0.1', reconnectStrategy: () => 20 } })
    client.on('error', () => {})
    onTestFinished(() => void (client.isOpen && client.destroy()))
    return { client: client as unknown as RedisClient }
  },
}

interface Lossy {
  readonly proxy: TcpProxy
  readonly prefix: string
  readonly driver: LockDriver
}

let lines = 0

/** A driver whose connections go through a proxy of its own. */
async function lossy(way: Way): Promise<Lossy> {
  lines += 1
  const proxy = await TcpProxy.start({ port: server.port })
  onTestFinished(() => proxy.stop())
  const prefix = `line-${lines}:`
  const driver = redis({ ...way(proxy.port), prefix, commandTimeoutMs })
  onTestFinished(() => driver.close())
  return { proxy, prefix, driver }
}

/** Rejects if a call hangs, and counts its failure as an answer. */
async function inTime<Result>(call: Promise<Result>): Promise<Result | undefined> {
  const answered = call.catch(() => undefined)
  return bounded(hangsAfterMs, answered, () => new Error('The call hangs.'))
}

/** Resolves once a waiter of this driver is pushed its grant by somebody else's release. */
async function untilPushed({ driver, prefix }: Lossy): Promise<void> {
  const other = await opened(redis({ url: server.url, prefix }))
  const pushed = new Set<string>()
  const listening = driver.listen?.(
    (_key, id, notification) => notification !== 'poll' && notification.state === 'held' && pushed.add(id),
  )
  await eventually(
    async () => {
      const [holder, waiter] = [claimOf('pushed'), claimOf('pushed')]
      await claim(other, holder)
      const status = await inTime<ClaimStatus>(claim(driver, waiter))
      await release(other, holder)
      const waited = status?.state === 'waiting' && eventually(() => pushed.has(waiter.id), 'The push', 1000)
      const received = await Promise.resolve(waited).catch(() => false)
      await release(other, waiter)
      return received
    },
    'A pushed grant',
    hangsAfterMs,
  )
  listening?.[Symbol.dispose]()
}

/** Resolves once their connections are gone. */
async function killSubscribers(): Promise<void> {
  const subscribers = async (): Promise<string[]> =>
    (await server.cli('CLIENT', 'LIST', 'TYPE', 'pubsub')).split('\n').map((line) => line.replace(/ .*/, ''))
  const before = new Set(await subscribers())
  await server.cli('CLIENT', 'KILL', 'TYPE', 'pubsub')
  await eventually(async () => !(await subscribers()).some((id) => before.has(id)), 'Their end')
}

/** Loses nothing more once the subscriber has met with its loss, or has passed it by. */
async function spareClient({ proxy, prefix }: Lossy): Promise<void> {
  const isBack = async (): Promise<boolean> => (await server.cli('PUBSUB', 'CHANNELS', `${prefix}*`)) !== ''
  await eventually(async () => proxy.droppedBytes > 0 || isBack(), 'Another subscription')
  proxy.loseReplyAfter(Infinity)
}

describe('a driver that may not subscribe', () => {
  const user = { username: 'deaf', password: 'secret' }
  const clients: Record<string, () => { readonly url: string } | { readonly client: RedisClient }> = {
    'of a URL': () => ({ url: `redis://${user.username}:${user.password}@127.0.0.1:${server.port}` }),
    'over ioredis': () => {
      const client = new Redis({ port: server.port, ...user, lazyConnect: true })
      onTestFinished(() => client.disconnect())
      return { client }
    },
    'over node-redis': () => {
      const client = createClient({ ...user, socket: { port: server.port, host: '127.0.0.1' } })
      client.on('error', () => {})
      onTestFinished(() => void (client.isOpen && client.destroy()))
      return { client }
    },
  }

  test.each(Object.entries(clients))(
    '%s says so, and leaves no connection of its own behind',
    async (_, optionsFor) => {
      await server.cli('ACL', 'SETUSER', 'deaf', 'reset', 'on', '>secret', '~*', '+@all', '-subscribe', 'resetchannels')
      const options = optionsFor()
      const own = async (): Promise<number> =>
        (await server.cli('CLIENT', 'LIST')).split('\n').filter((line) => line.includes('user=deaf')).length
      for (let attempt = 0; attempt < 3; attempt += 1) {
        const driver = redis(options)
        await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'auth' })
        await driver.close()
      }
      await eventually(async () => (await own()) <= ('client' in options ? 1 : 0), 'The end of its connections')
    },
  )
})

describe.each(Object.entries(ways))('over %s', (name, way) => {
  // The connection of a client that was given is its owner's to give up.
  const ownsAll = name === 'a URL'
  const some = (): Promise<Lossy[]> => Promise.all(Array.from({ length: repliesMax }, () => lossy(way)))

  test('whichever reply is lost while it dials again, every call ends, and grants are pushed again', async () => {
    const all = await some()
    await Promise.all(all.map(({ driver }) => driver.open()))
    for (const [replies, { proxy }] of all.entries()) proxy.loseReplyAfter(replies)
    await killSubscribers()
    if (!ownsAll) await Promise.all(all.map((line) => spareClient(line)))
    await Promise.all(all.map((line) => untilPushed(line)))
    expect(all.filter(({ proxy }) => proxy.droppedBytes > 0).length).toBeGreaterThan(0)
  })

  test('whichever reply is lost while it opens, that ends, and the next attempt finds a way', async () => {
    const all = await some()
    for (const [replies, { proxy }] of all.entries()) proxy.loseReplyAfter(replies)
    await Promise.all(all.map(({ driver }) => inTime(driver.open())))
    if (!ownsAll) {
      for (const { proxy } of all) {
        proxy.loseReplyAfter(Infinity)
        proxy.cut()
      }
    }
    await Promise.all(
      all.map(({ driver }) =>
        eventually(
          () =>
            driver.open().then(
              () => true,
              () => false,
            ),
          'It opens',
        ),
      ),
    )
    await Promise.all(all.map((line) => untilPushed(line)))
  })

  test('closed after a reply was lost, it ends at once and has no connection left', async () => {
    const all = await some()
    for (const [replies, { proxy }] of all.entries()) proxy.loseReplyAfter(replies)
    const opening = all.map(({ driver }) => inTime(driver.open()))
    await Promise.all(all.map(({ driver }) => inTime(driver.close())))
    await Promise.all(opening)
    if (!ownsAll) return
    await eventually(() => all.every(({ proxy }) => proxy.connections === 0), 'The end of all connections')
  })
})

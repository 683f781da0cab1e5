import { readFileSync } from 'node:fs'
import { Cluster, Redis } from 'ioredis'
import { createClient, createCluster } from 'redis'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { byteRange, connect, createLocks } from '../../src/index.ts'
import { redis, type RedisClient } from '../../src/drivers/redis/driver.ts'
import { Child } from '../support/child.ts'
import { eventually } from '../support/eventually.ts'
import { freePort, freePortPair } from '../support/free-port.ts'
import { makePrivateCa } from '../support/private-ca.ts'
import { RedisCluster } from '../support/redis-cluster.ts'
import { RedisServer } from '../support/redis-server.ts'
import { folderForFile } from '../support/test-folder.ts'

const folder = folderForFile('tls')
const { caFile, certificateFile, keyFile } = makePrivateCa(folder)
const certificates = {
  'tls-cert-file': certificateFile,
  'tls-key-file': keyFile,
  'tls-ca-cert-file': caFile,
  'tls-auth-clients': 'no',
}
const tlsPort = await freePort()
const server = await RedisServer.start({
  settings: { ...certificates, 'tls-port': String(tlsPort), requirepass: 'p@ss' },
})
const cluster = await RedisCluster.start()

afterAll(async () => {
  await Promise.all([server.stop(), cluster.stop()])
})

const password = encodeURIComponent('p@ss')
const urls = {
  tcp: `redis://:${password}@127.0.0.1:${server.port}`,
  tls: `rediss://:${password}@localhost:${tlsPort}`,
  socket: `redis+unix://${server.socketPath}?password=${password}`,
  cluster: `redis-cluster://${cluster.servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
}

/** What a process says that visits these stores, with one client library and the certificate authority, or without. */
async function visit(library: string, stores: readonly string[], trusts = true): Promise<readonly string[]> {
  const child = new Child('redis-visitor', [library, ...stores], trusts ? { NODE_EXTRA_CA_CERTS: caFile } : {})
  onTestFinished(() => child.kill())
  await child.ended()
  expect(child.complaints).not.toMatch(/Error/)
  return child.lines
}

describe.each(['ioredis', 'redis'])('where only %s is installed', (library) => {
  test('a URL leads over TCP, TLS, a socket and to a Cluster', async () => {
    const databases = [`${urls.tls}/3`, `${urls.socket}&db=3`]
    const lines = await visit(library, [...Object.values(urls), ...databases])
    expect(lines).toEqual(Array.from({ length: 6 }, () => 'held true'))
  })

  test('a certificate that nobody vouches for is refused', async () => {
    const [line] = await visit(library, [urls.tls], false)
    expect(line).toMatch(/^UNAVAILABLE: Redis cannot be reached: .*(certificate|self.signed)/i)
  })

  test('a wrong password is told as such, over TLS and a socket', async () => {
    const wrong = [urls.tls, urls.socket].map((url) => url.replace(password, 'wrong'))
    for (const line of await visit(library, wrong)) expect(line).toMatch(/^UNAVAILABLE: WRONGPASS.* Check user, pass/)
  })

  test('a Cluster is reached as long as one of the nodes in its URL is up', async () => {
    const dead = await freePort()
    const [one] = cluster.servers
    expect(await visit(library, [`redis-cluster://127.0.0.1:${dead},127.0.0.1:${one?.port}`])).toEqual(['held true'])
    const [line] = await visit(library, [`redis-cluster://127.0.0.1:${dead}`])
    expect(line).toMatch(/^UNAVAILABLE: Redis/)
  })
})

describe('a prefix', () => {
  const prefix = 'billing:locks:'
  const query = `prefix=${encodeURIComponent(prefix)}`

  async function nodeRedisCluster(): Promise<RedisClient> {
    const client = createCluster({ rootNodes: cluster.startNodes.map((socket) => ({ socket })) })
    await client.connect()
    onTestFinished(() => client.destroy())
    return client
  }

  async function ioredisOf<Client extends Redis | Cluster>(client: Client): Promise<Client> {
    onTestFinished(() => client.disconnect())
    return client
  }

  async function nodeRedis(): Promise<RedisClient> {
    const client = createClient({ url: urls.tcp })
    await client.connect()
    onTestFinished(() => client.destroy())
    return client
  }

  const single = () => [server]
  const all = () => cluster.servers
  const kinds: readonly (readonly [string, typeof all, () => Promise<Parameters<typeof redis>>])[] = [
    ['in the URL of a server', single, async () => [`${urls.tcp}?${query}`]],
    ['in the URL of a socket', single, async () => [`${urls.socket}&${query}`]],
    ['in the URL of a Cluster', all, async () => [`${urls.cluster}?${query}`]],
    ['beside a URL', single, async () => [urls.tcp, { prefix }]],
    ['beside a URL that has another', single, async () => [`${urls.tcp}?prefix=other:`, { prefix }]],
    ['beside the URL of a Cluster', all, async () => [urls.cluster, { prefix }]],
    ['beside ioredis', single, async () => [await ioredisOf(new Redis(urls.tcp)), { prefix }]],
    ['beside node-redis', single, async () => [await nodeRedis(), { prefix }]],
    ['beside a Cluster of ioredis', all, async () => [await ioredisOf(new Cluster(cluster.startNodes)), { prefix }]],
    ['beside a cluster of node-redis', all, async () => [await nodeRedisCluster(), { prefix }]],
  ]

  test.each(kinds)(
    '%s begins every name and channel, and keeps its locks from others',
    async (_kind, servers, source) => {
      const namesOf = async (pattern: string): Promise<string[]> => {
        const replies = await Promise.all(
          servers().map((each) => each.cli('-a', 'p@ss', '--no-auth-warning', 'KEYS', pattern)),
        )
        return replies.flatMap((reply) => reply.split('\n')).filter((name) => name !== '')
      }
      await Promise.all(servers().map((each) => each.cli('-a', 'p@ss', '--no-auth-warning', 'FLUSHALL')))
      await using locks = await createLocks({ driver: redis(...(await source())) })
      await using same = await createLocks({ driver: redis(...(await source())) })
      await using others = await connect(servers() === cluster.servers ? urls.cluster : urls.tcp)
      const first = await locks.acquire('shared-name')
      expect(await others.list()).toMatchObject({ locks: [] })
      await using apart = await others.acquire('shared-name', { wait: 0 })
      const next = same.acquire('shared-name')
      await eventually(async () => (await locks.inspect('shared-name'))?.waiters.length === 1, 'The waiter')
      const names = await namesOf('*')
      const ours = names.filter((name) => name.startsWith(prefix))
      expect(ours.length).toBeGreaterThanOrEqual(4) // record, fence, queue and waiters
      expect(names.filter((name) => !name.startsWith(prefix)).every((name) => name.startsWith('leasehold:'))).toBe(true)
      expect(apart.held).toBe(true)
      await first.release()
      await using second = await next
      expect(second.fence).toBeGreaterThan(first.fence)
      expect(await same.list({ prefix: 'shared' })).toMatchObject({ locks: [{ scope: 'shared-name' }] })
    },
  )
})

describe('a user with the rights that the page about Redis names, and no more', () => {
  test('can claim, queue, be told, renew, evict, list and release', async () => {
    const page = readFileSync('docs/stores/redis.md', 'utf8')
    const named = page.slice(page.indexOf('An ACL for a client')).matchAll(/`([^`]+)`/g)
    const rights = [...named].flatMap(([, words = '']) => words.split(' '))
    expect(rights).toContain('+evalsha')
    // To sign in.
    const connecting = ['+hello', '+select']
    const cli = (...args: readonly string[]): Promise<string> => server.cli('--no-auth-warning', '-a', 'p@ss', ...args)
    const user = ['app', 'reset', 'resetchannels', 'on', '>secret', ...rights, ...connecting]
    expect(await cli('ACL', 'SETUSER', ...user)).toBe('OK')
    await cli('ACL', 'LOG', 'RESET')
    await using locks = await connect(`redis://app:secret@127.0.0.1:${server.port}/0`, { allowForce: true })
    const lease = await locks.acquire('acl')
    const together = await Promise.all(['a', 'b', 'c'].map((name) => locks.acquire(name)))
    await Promise.all(together.map((other) => other.renew()))
    await Promise.all(together.map((other) => other.release()))
    const readers = await Promise.all(['a', 'b', 'c', 'd', 'e'].map(() => locks.readWrite('many').read()))
    await Promise.all(readers.map((reader) => reader.renew()))
    const ranges = await Promise.all([0, 1, 2, 3, 4].map((at) => locks.acquire(byteRange(7, at, at + 1))))
    await Promise.all([...readers, ...ranges].map((other) => other.release()))
    const waiting = Promise.all([locks.acquire('acl'), locks.readWrite('acl').read({ priority: 'high' })])
    await eventually(async () => (await locks.inspect('acl'))?.waiters.length === 2, 'Both that wait')
    expect((await locks.list()).locks.map(({ scope }) => scope)).toContain('acl')
    await lease.release()
    await eventually(async () => {
      for (const { fence } of (await locks.inspect('acl'))?.holders ?? [])
        await locks.evict('acl', { fence, reason: 'x' })
      return (await locks.inspect('acl')) === null
    }, 'The end of all')
    expect((await waiting).every(({ fence }) => fence > lease.fence)).toBe(true)
    expect(await cli('ACL', 'LOG')).toBe('')
  })
})

describe('one lock', () => {
  const overTls: Record<string, () => RedisClient> = {
    ioredis: () => new Redis({ port: tlsPort, password: 'p@ss', tls: { ca: readFileSync(caFile) }, lazyConnect: true }),
    'node-redis': () =>
      createClient({ password: 'p@ss', socket: { port: tlsPort, tls: true, ca: readFileSync(caFile) } }),
  }

  test.each(Object.entries(overTls))('is the same over TCP and over TLS by a client of %s', async (_, newClient) => {
    const client = newClient()
    await using plain = await connect(urls.tcp)
    await using secure = await createLocks({ driver: redis(client) })
    await using lease = await secure.acquire('orders/42')
    expect(lease.fence).toBeGreaterThan(0)
    expect(await plain.tryAcquire('orders/42')).toBeNull()
    onTestFinished(() => ('call' in client ? client.disconnect() : client.destroy?.()))
  })

  test('is the same over TCP and a socket in one database, and another in another', async () => {
    await using socket = await connect(`${urls.socket}&db=1`)
    await using same = await connect(`${urls.tcp}/1`)
    await using other = await connect(`${urls.tcp}/2`)
    await using lease = await socket.acquire('orders/42')
    expect(await same.tryAcquire('orders/42')).toBeNull()
    await using elsewhere = await other.tryAcquire('orders/42')
    expect(elsewhere?.key).toBe(lease.key)
  })
})

describe('a Cluster by its URL', () => {
  test('is one store to all who name any of its nodes', async () => {
    const [first, second] = cluster.servers.map(({ port }) => `redis-cluster://127.0.0.1:${port}`) as [string, string]
    await using one = await connect(first)
    await using other = await connect(second)
    await using lease = await one.acquire('orders/42')
    expect(await other.tryAcquire('orders/42')).toBeNull()
    const waiting = other.acquire('orders/42', { wait: 10_000 })
    await lease.release()
    await using next = await waiting
    expect(next.fence).toBeGreaterThan(lease.fence)
  })

  test('may speak TLS, and ask for a password', async () => {
    const port = await freePortPair(10_000)
    const settings = {
      ...certificates,
      requirepass: 'p@ss',
      'tls-port': String(port),
      'tls-cluster': 'yes',
      'cluster-enabled': 'yes',
      'cluster-announce-ip': '127.0.0.1',
    }
    const node = await RedisServer.start({ settings })
    onTestFinished(() => node.stop())
    const cli = (...args: readonly string[]): Promise<string> => node.cli('--no-auth-warning', '-a', 'p@ss', ...args)
    const all = Array.from({ length: 16_384 }, (_, slot) => String(slot))
    expect(await cli('CLUSTER', 'ADDSLOTS', ...all)).toBe('OK')
    await eventually(async () => (await cli('CLUSTER', 'INFO')).includes('cluster_state:ok'), 'The cluster')
    const url = `rediss-cluster://:${password}@localhost:${port}`
    for (const library of ['ioredis', 'redis']) {
      const [held, refused] = await visit(library, [url, url.replace(password, 'wrong')])
      expect(held).toBe('held true')
      expect(refused).toMatch(/^UNAVAILABLE: .*WRONGPASS/)
    }
  })
})

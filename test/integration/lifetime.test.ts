import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openLocks } from '../../src/api/create-locks.ts'
import type { LockDriver, Request, Supports } from '../../src/core/contract/driver.ts'
import { fullSupport } from '../../src/core/contract/supports.ts'
import { http } from '../../src/drivers/http/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { quorum } from '../../src/drivers/quorum/driver.ts'
import { connect, createLocks } from '../../src/index.ts'
import { serve, type LeaseholdServer, type ServeOptions } from '../../src/server/index.ts'
import { faulty } from '../../src/testing/index.ts'
import { around } from '../support/around.ts'
import { postRequests } from '../support/called.ts'
import { claimOf } from '../support/claims.ts'
import { PostgresServer } from '../support/postgres-server.ts'

const bound: Supports = { ...fullSupport, lifetime: 'connection' }
const refused = { code: 'UNSUPPORTED', message: expect.stringContaining('end with the connection') as string }

/** A driver whose store may become another while it is open, as when another server takes the place of one. */
interface Changing extends LockDriver {
  supports: Supports
  opened: number
  closed: number
}

function changing(supports: Supports = fullSupport): Changing {
  const driver = memory()
  const changed: Changing = {
    ...around(driver, { dataAgeMs: async () => (await driver.dataAgeMs?.()) ?? 0 }),
    supports,
    opened: 0,
    closed: 0,
    open: async () => void (changed.opened += 1),
    close: async () => {
      changed.closed += 1
      await driver.close()
    },
  }
  return changed
}

async function start(options: Omit<ServeOptions, 'port'> & { port?: number }): Promise<LeaseholdServer> {
  const server = await serve({ port: 0, ...options })
  onTestFinished(() => server.close())
  return server
}

const claim = { op: 'claim', claim: claimOf('default/named:x', { id: 'one', ttlMs: 20_000 }) } as const

describe('a store whose locks end with a connection is refused', () => {
  test('by a server', async () => {
    const driver = changing(bound)
    await expect(serve({ driver, port: 0 })).rejects.toMatchObject(refused)
    expect(driver.closed).toBe(1)
  })

  test('by a client of a server that serves it all the same, and by a server in front of that', async () => {
    const driver = changing()
    const { url } = await start({ driver })
    driver.supports = bound
    await expect(connect(url)).rejects.toMatchObject(refused)
    await expect(serve({ store: url, port: 0 })).rejects.toMatchObject(refused)
  })

  test('by a quorum, before any node is connected', async () => {
    const nodes = [changing(), changing(), changing(bound)]
    await expect(quorum(nodes).open()).rejects.toMatchObject(refused)
    expect(nodes.map(({ opened }) => opened)).toEqual([0, 0, 0])
    expect(nodes.map(({ closed }) => closed)).toEqual([1, 1, 1])
  })

  test('by a quorum of servers, which learns of it when it opens them', async () => {
    const stores = [changing(), changing(), changing()]
    const servers = await Promise.all(stores.map((driver) => start({ driver })))
    for (const store of stores) store.supports = bound
    const driver = quorum(servers.map(({ url }) => http(url)))
    await expect(driver.open()).rejects.toMatchObject(refused)
  })

  test('by a quorum behind whatever puts faults in between', async () => {
    const nodes = [changing(), changing(), changing(bound)].map((driver) => faulty(driver))
    await expect(quorum(nodes).open()).rejects.toMatchObject(refused)
  })

  test('as a node that opens late: it is asked nothing, and the others go on', async () => {
    const late = changing()
    let isReady = false
    late.open = async () => {
      if (!isReady) throw new Error('not yet')
      late.supports = bound
    }
    const sent: unknown[] = []
    late.send = async (requests) => {
      sent.push(requests)
      return requests.map(() => ({ state: 'absent', reason: 'refused' }))
    }
    const driver = quorum([changing(), changing(), late], { votesAfter: 0 })
    onTestFinished(() => driver.close())
    await driver.open()
    isReady = true
    await expect.poll(() => late.supports.lifetime).toBe('connection')
    expect(await driver.send([claim])).toMatchObject([{ state: 'held' }])
    expect(sent).toEqual([])
  })

  test('for a heartbeat thread, before it is started', async () => {
    let started = 0
    const startThread = (): never => {
      started += 1
      throw new Error('It was started.')
    }
    const opening = openLocks({ driver: changing(bound), runnerName: undefined, startThread })
    await expect(opening).rejects.toMatchObject(refused)
    expect(started).toBe(0)
  })

  test('nor is a memory store renewed from one', async () => {
    await expect(connect('memory:', { heartbeatThread: true })).rejects.toMatchObject({ code: 'INVALID' })
  })

  test('and no longer served, once a driver finds one in the place of another', async () => {
    const driver = changing()
    const { url } = await start({ driver })
    const client = http(url)
    onTestFinished(() => client.close())
    await client.open()
    expect(await client.send([claim])).toMatchObject([{ state: 'held' }])
    driver.supports = bound
    expect(await client.send([claim])).toMatchObject([{ state: 'unknown', error: refused }])
    await expect(client.send([claim])).rejects.toMatchObject(refused)
    // Nor for callers that know nothing of this.
    const other: Request = { op: 'claim', claim: claimOf('default/named:y') }
    const answered = await postRequests(url, [other])
    expect(answered.value).toMatchObject({ statuses: [{ state: 'unknown', error: { code: 'UNSUPPORTED' } }] })
    expect((await driver.list({})).keys.map(({ key }) => key)).toEqual([claim.claim.key])
  })
})

describe('what a composition supports', () => {
  test('follows a server that takes the place of another', async () => {
    const first = await serve({ driver: changing({ ...fullSupport, ttlMaxMs: 100_000 }), port: 0 })
    const inner = http(first.url)
    const outer = await start({ driver: inner })
    const client = http(outer.url)
    onTestFinished(() => client.close())
    await client.open()
    expect(client.supports.ttlMaxMs).toBe(100_000)
    const { port } = new URL(first.url)
    await first.close()
    await start({ driver: changing({ ...fullSupport, ttlMaxMs: 50_000, range: false }), port: Number(port) })
    expect(await client.send([claim])).toMatchObject([{ state: 'held' }])
    expect(client.supports).toMatchObject({ ttlMaxMs: 50_000, range: false })
  })

  test('is, for a quorum of servers, what its nodes say when they are open, also the last of them', async () => {
    const least = { ...fullSupport, ttlMinMs: 500, ttlMaxMs: 40_000, ttlDefaultMs: 20_000 }
    const servers = await Promise.all([fullSupport, least, fullSupport].map((one) => start({ driver: changing(one) })))
    const driver = quorum(
      servers.map(({ url }) => http(url)),
      { votesAfter: 0 },
    )
    const locks = await createLocks({ driver })
    onTestFinished(() => locks.close())
    await expect.poll(() => driver.supports).toMatchObject({ ttlMinMs: 500, ttlMaxMs: 40_000 })
    await expect((async () => locks.acquire('orders/42', { ttl: '50s' }))()).rejects.toMatchObject({ code: 'INVALID' })
    expect(driver.supports).toBe(driver.supports)
  })

  test('binds each node of a quorum: none is asked for more than it can do, also if it opened late', async () => {
    const narrow = changing()
    const sent: string[] = []
    const send = narrow.send.bind(narrow)
    narrow.send = (requests) => {
      sent.push(...requests.map(({ op }) => op))
      return send(requests)
    }
    const driver = quorum([changing(), changing(), narrow], { votesAfter: 0 })
    onTestFinished(() => driver.close())
    await driver.open()
    narrow.supports = { ...fullSupport, ttlMaxMs: 1000 }
    await driver.send([{ op: 'claim', claim: claimOf(claim.claim.key, { id: 'one', ttlMs: 20_000 }) }])
    await driver.send([{ op: 'renew', key: claim.claim.key, id: 'one', ttlMs: 20_000 }])
    expect(sent.filter((op) => op !== 'release')).toEqual([])
  })
})

describe('advisory locks of PostgreSQL', () => {
  let server: PostgresServer
  let url: string
  beforeAll(async () => {
    server = await PostgresServer.start()
    url = server.url.replace('postgres:', 'postgres-advisory:')
  })
  afterAll(() => server.destroy())

  test('are not renewed from a heartbeat thread', async () => {
    await expect(connect(url, { heartbeatThread: true })).rejects.toMatchObject(refused)
  })

  test('are not served', async () => {
    await expect(serve({ store: url, port: 0 })).rejects.toMatchObject(refused)
  })

  test('are no node of a quorum', async () => {
    await expect(connect(`quorum:memory:,memory:,${url},?votesAfter=0`)).rejects.toMatchObject(refused)
  })

  test('leave no session behind where they are refused', async () => {
    const count = `select count(*)::integer as sessions from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`
    await expect.poll(async () => (await server.sql(count))[0]?.['sessions']).toBe(0)
  })
})

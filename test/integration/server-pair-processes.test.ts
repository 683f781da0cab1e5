/** Two servers over one store, behind an nginx that knows no sessions, and one of them killed. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { http } from '../../src/drivers/http/driver.ts'
import { monotonicMs } from '../../src/core/machine/machine-clock.ts'
import { createLocks, type Lease, type Locks } from '../../src/index.ts'
import { checkHistory } from '../../src/testing/index.ts'
import { blocksOf } from '../docs/blocks.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { leaseIn, LockCalls, type AnsweredLease } from '../support/lock-calls.ts'
import { Nginx } from '../support/nginx.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisServer } from '../support/redis-server.ts'
import { tokenOf } from '../support/tokens.ts'
import { Workshop, type CommandLine } from './cli-process.ts'
import { historyRun } from './history/run.ts'
import { isLong } from '../support/extent.ts'

const redisServer = await RedisServer.start()
const postgresServer = await PostgresServer.start()
afterAll(() => Promise.all([redisServer.stop(), postgresServer.destroy()]))

let workshop: Workshop
beforeEach(() => {
  workshop = new Workshop()
})
afterEach(() => workshop.close())

const token = tokenOf('all')

/** Two servers, and the proxy in front of them. */
interface Pair {
  /** Of the proxy. */
  readonly url: string
  readonly servers: readonly [RunningServer, RunningServer]
}

interface RunningServer {
  readonly url: string
  readonly process: CommandLine
}

/** The part of docs/server.md that spreads calls over servers, with our ports in it. */
function documented(ports: readonly number[]): string {
  const blocks = blocksOf('docs/server.md').filter(
    ({ language, text }) => language === 'nginx' && text.includes(':7412'),
  )
  expect(blocks).toHaveLength(1)
  const text = blocks[0]?.text ?? ''
  return ports.reduce((block, port, index) => block.replace(`127.0.0.1:${7411 + index}`, `127.0.0.1:${port}`), text)
}

async function startPair(store: string): Promise<Pair> {
  const tokens = path.join(workshop.directory, 'tokens.json')
  const rights = ['lock', 'read']
  writeFileSync(tokens, JSON.stringify([{ name: 'all', token, namespaces: '*', rights }]), { mode: 0o600 })
  const started = [await freePort(), await freePort()].map(async (port): Promise<RunningServer> => {
    const server = workshop.leasehold('serve', '--store', store, '--port', String(port), '--tokens', tokens)
    await server.says(/serving .* on http:\/\//)
    return { url: `http://127.0.0.1:${port}`, process: server }
  })
  const servers = (await Promise.all(started)) as [RunningServer, RunningServer]
  const ports = servers.map(({ url }) => Number(new URL(url).port))
  const nginx = await Nginx.start((own) => documented(ports).replace('listen 443 ssl', `listen 127.0.0.1:${own}`))
  onTestFinished(() => nginx.stop())
  return { url: `http://127.0.0.1:${nginx.port}`, servers }
}

async function kill({ process }: RunningServer): Promise<void> {
  process.kill('SIGKILL')
  await process.ended()
}

async function clientOf(url: string): Promise<Locks> {
  const locks = await createLocks({ driver: http({ url, token }) })
  onTestFinished(() => locks.close())
  return locks
}

const stores: Record<string, () => string> = {
  Redis: () => redisServer.url,
  PostgreSQL: () => postgresServer.url,
  SQLite: () => `sqlite:${workshop.storeFile}`,
}

/** SQLite and Redis differ most: by processes on one file, and by a server. */
const chosen = Object.entries(stores).filter(([name]) => isLong || name !== 'PostgreSQL')

describe.each(chosen)('two servers over %s, of which one is killed', (_, storeUrl) => {
  test('lose no lease, and serve those who wait', async () => {
    const { url, servers } = await startPair(storeUrl())
    const [holders, waiters] = [await clientOf(url), await clientOf(url)]
    const names = Array.from({ length: 20 }, (_each, index) => `order-${index}`)
    const lost: string[] = []
    const renewed = new Map<string, number>()
    holders.on('lost', ({ scope }) => void lost.push(scope))
    holders.on('renewed', ({ scope }) => void renewed.set(scope, (renewed.get(scope) ?? 0) + 1))
    const leases = await Promise.all(names.map((name) => holders.acquire(name, { ttl: '4s', heartbeat: '600ms' })))
    const waiting = names.map((name) => waiters.acquire(name, { ttl: '4s' }))
    await eventually(async () => (await holders.list()).locks.every((lock) => lock.waiters.length === 1), 'all waiters')

    await kill(servers[0])
    renewed.clear()
    // More than a ttl: what was renewed at the dead server last has been renewed at the other since.
    await eventually(() => names.every((name) => (renewed.get(name) ?? 0) >= 7), 'renewals at the server that is left')
    expect(lost).toEqual([])
    expect(leases.every(({ held }) => held)).toBe(true)

    await Promise.all(leases.map((lease) => lease.release()))
    const served: readonly Lease[] = await Promise.all(waiting)
    for (const [index, { fence }] of served.entries()) expect(fence).toBeGreaterThan(leases[index]?.fence ?? Infinity)
  })

  test('keep the leases of callers without our client, and their places in the queue', async () => {
    const { url, servers } = await startPair(storeUrl())
    const calls = new LockCalls(url)
    const names = Array.from({ length: 6 }, (_each, index) => `build-${index}`)
    const ids = new Map(names.map((name) => [name, calls.newId()]))
    const take = (name: string, id: string | undefined, query: string): Promise<AnsweredLease> =>
      calls.put(name, { token, query, ...(id !== undefined && { id }) }).then(leaseIn)
    const held = await Promise.all(names.map((name) => take(name, undefined, 'ttl=1h')))
    const waiting = names.map((name) => take(name, ids.get(name), 'ttl=30s&wait=60s'))
    const queue = async (name: string): Promise<number> =>
      ((await calls.get(name, { token })).value as { waiting: number }).waiting
    const areWaiting = async (count: number): Promise<boolean> =>
      (await Promise.all(names.map(queue))).every((each) => each === count)
    await eventually(() => areWaiting(1), 'those who wait')
    // They wait at both servers.
    for (const { url: own } of servers) expect(await waitsAt(own)).toBeGreaterThan(0)
    const behind = names.map((name) => take(name, calls.newId(), 'ttl=30s&wait=60s'))
    await eventually(() => areWaiting(2), 'those behind them')

    await kill(servers[0])
    await eventually(
      async () => (await waitsAt(servers[1].url)) === 2 * names.length,
      'all of them at the other server',
    )
    for (const [index, { id, fence }] of held.entries()) {
      const name = names[index] ?? ''
      expect(leaseIn(await calls.renew(name, { id, token }))).toMatchObject({ fence })
      expect(await calls.delete(name, { id, token })).toMatchObject({ value: { released: true } })
    }
    const first = await Promise.all(waiting)
    expect(first.map(({ id }) => id)).toEqual([...ids.values()])
    for (const [index, name] of names.entries()) await calls.delete(name, { id: first[index]?.id ?? '', token })
    for (const [index, { fence }] of (await Promise.all(behind)).entries()) {
      expect(fence).toBeGreaterThan(first[index]?.fence ?? Infinity)
    }
  })

  test('let no two hold at once, whoever of many processes asks', async () => {
    const { url, servers } = await startPair(storeUrl())
    let killedAt = Infinity
    const events = await historyRun({
      trade: 'mutex',
      clients: 4,
      runMs: 4000,
      ttlMs: 4000,
      url: url.replace('//', `//${token}@`),
      async meanwhile() {
        await kill(servers[1])
        killedAt = monotonicMs()
      },
    })
    const { violations, summary } = checkHistory(events, { fair: true })
    expect(violations).toEqual([])
    expect(events.filter(({ type }) => type === 'lost' || type === 'refused')).toEqual([])
    expect(summary.handOvers).toBeGreaterThan(0)
    expect(events.filter(({ type, at }) => type === 'granted' && at > killedAt).length).toBeGreaterThan(0)
  })
})

async function waitsAt(url: string): Promise<number> {
  const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } })
  return Number(/^leasehold_server_waits_under_way (\d+)$/m.exec(await response.text())?.[1])
}

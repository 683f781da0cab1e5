import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { quorum, type QuorumOptions } from '../../src/drivers/quorum/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { createLocks, type Locks } from '../../src/index.ts'
import { checkHistory, conformance, type HistoryEvent } from '../../src/testing/index.ts'
import { eventually } from '../support/eventually.ts'
import { RedisServer } from '../support/redis-server.ts'

// Without persistence: whoever is killed comes back empty.
const servers = await Promise.all(Array.from({ length: 5 }, () => RedisServer.start()))
const votesAfterMs = 5000
const ttlMs = 4000

afterAll(() => Promise.all(servers.map((server) => server.stop())))

conformance('a quorum of three Redis servers', {
  async open() {
    const trio = servers.slice(0, 3)
    await Promise.all(trio.map((server) => server.cli('FLUSHALL')))
    let time = Date.now()
    const clockForTests = (): number => time
    const drivers: LockDriver[] = []
    const stragglers = new Stragglers()
    return {
      async driver() {
        const nodes = trio.map(({ url }) => redis({ url, clockForTests }))
        await Promise.all(nodes.map((node) => stragglers.follow(node)))
        const environment = { ...systemEnvironment(), now: clockForTests }
        const driver = quorum(nodes, { votesAfter: 0, drift: 0, environment })
        drivers.push(driver)
        await driver.open()
        return stragglers.outwaitedBy(driver)
      },
      async advance(ms) {
        await stragglers.arrived()
        time += ms
      },
      async close() {
        await stragglers.arrived()
        await Promise.all(drivers.map((driver) => driver.close()))
      },
    }
  },
})

/**
 * Requests that single nodes have yet to answer. A quorum tells its verdict without the last of them, so the next client
 * may reach that node first: right, but another story than the one a fact tells.
 */
class Stragglers {
  readonly #underWay = new Set<Promise<unknown>>()

  /** Opens it as well: a quorum does not wait for the last to be open, either. */
  async follow(node: LockDriver): Promise<void> {
    await node.open()
    const send = node.send.bind(node)
    node.send = (requests) => {
      const answers = send(requests)
      this.#underWay.add(answers)
      const over = (): void => void this.#underWay.delete(answers)
      answers.then(over, over)
      return answers
    }
  }

  outwaitedBy(driver: LockDriver): LockDriver {
    const send = driver.send.bind(driver)
    driver.send = async (requests) => {
      await this.arrived()
      return send(requests)
    }
    return driver
  }

  /** An answer may be what the next request for its key has waited for, so it takes a look more. */
  async arrived(): Promise<void> {
    do {
      await Promise.allSettled(this.#underWay)
      await nextTurn()
    } while (this.#underWay.size > 0)
  }
}

describe('a quorum of five Redis servers', () => {
  const opened: Locks[] = []

  async function open(options: QuorumOptions = {}): Promise<Locks> {
    const driver = quorum(
      servers.map(({ url }) => redis(url)),
      // A machine that stands still for a second is not a server that fails.
      { votesAfter: votesAfterMs, answerWithin: 1500, ...options },
    )
    const locks = await createLocks({ driver, defaults: { ttl: ttlMs } })
    opened.push(locks)
    return locks
  }

  beforeEach(async () => {
    const locks = await open()
    await locks.run('warm-up', { wait: '60s' }, () => {})
    // Every one of them votes again, whatever the test before did to it.
    await pause(votesAfterMs + 1000)
  })

  afterEach(async () => {
    await Promise.all(opened.splice(0).map((locks) => locks.close()))
  })

  test('holds through kill -9 of two, their return without data, and kill -9 of two others', async () => {
    const [locks, others] = [await open(), await open()]
    const lease = await locks.acquire('report')
    // Three granted it, and the others may have been late: its first renewal reaches all.
    await renewals(locks, 2)
    const free = async (): Promise<boolean> => (await others.tryAcquire('report').catch(() => null)) !== null
    for (const pair of [servers.slice(0, 2), servers.slice(2, 4)]) {
      await Promise.all(pair.map((server) => server.kill()))
      // For longer than the ttl.
      await renewals(locks, 4)
      expect(lease.held).toBe(true)
      expect(await free()).toBe(false)
      await Promise.all(pair.map((server) => server.start()))
      // Each gives them the claim again, as soon as they are connected.
      await renewals(locks, 4)
      expect(await free()).toBe(false)
    }
    expect(lease.held).toBe(true)
    const { fence } = lease
    await lease.release()
    const next = await others.acquire('report', { wait: '60s' })
    expect(next.fence).toBeGreaterThan(fence)
  })

  test('is not held up by one that is stopped', async () => {
    const locks = await open({ answerWithin: 2000 })
    servers[4]?.freeze()
    try {
      const times: number[] = []
      for (let turn = 0; turn < 20; turn += 1) {
        const began = performance.now()
        const lease = await locks.acquire(`job-${turn}`)
        await lease.release()
        times.push(performance.now() - began)
      }
      expect(times.toSorted((one, other) => one - other)[10]).toBeLessThan(1000)
    } finally {
      servers[4]?.thaw()
    }
  })

  test('gives nothing away after three came back without data, while a lease they forgot may last', async () => {
    const [locks, others] = [await open(), await open()]
    const lease = await locks.acquire('report', { heartbeat: 'manual' })
    await Promise.all(servers.slice(0, 3).map((server) => server.kill()))
    await Promise.all(servers.slice(0, 3).map((server) => server.start()))
    while (lease.held) {
      expect(await others.tryAcquire('report').catch(() => null)).toBeNull()
      await pause(50)
    }
    const next = await others.acquire('report', { wait: '60s', retry: { max: '500ms' } })
    expect(next.fence).toBeGreaterThan(lease.fence)
  })

  test('which it would, if nodes voted at once', async () => {
    const [locks, others] = [await open({ votesAfter: '10s' }), await open({ votesAfter: 0 })]
    const lease = await locks.acquire('report', { heartbeat: 'manual', ttl: '10s', wait: '60s' })
    await Promise.all(servers.slice(0, 3).map((server) => server.kill()))
    await Promise.all(servers.slice(0, 3).map((server) => server.start()))
    const second = await others.acquire('report', { wait: '20s', ttl: '10s' })
    expect(lease.held, 'the first lease still runs').toBe(true)
    expect(second.fence).toBeGreaterThan(lease.fence)
  })

  test('has one holder at a time and growing fences, while servers are killed and stopped', async () => {
    const events: HistoryEvent[] = []
    const startedAt = performance.now()
    // Fifteen seconds, and on until enough has happened to show something.
    const isOver = (): boolean => {
      const ranMs = performance.now() - startedAt
      const grants = events.filter(({ type }) => type === 'granted').length
      return ranMs > 60_000 || (ranMs > 15_000 && grants > 60)
    }
    const clients = await Promise.all([open(), open(), open()])
    const disturb = async (): Promise<void> => {
      for (let turn = 0; !isOver(); turn += 1) {
        const [one, other] = [servers[turn % 5], servers[(turn + 2) % 5]]
        await one?.kill()
        other?.freeze()
        await pause(700)
        other?.thaw()
        await one?.start()
        await pause(1800)
      }
    }
    await Promise.all([disturb(), ...clients.map((locks, number) => work(locks, `client-${number}`, events, isOver))])
    const { violations, summary } = checkHistory(events, { fair: false })
    expect(violations.map(({ message }) => message)).toEqual([])
    expect(summary.holds).toBeGreaterThan(50)
  })
})

/** Resolves when the client has renewed its lease so many times more. */
async function renewals(locks: Locks, count: number): Promise<void> {
  let renewed = 0
  const listening = locks.on('renewed', () => (renewed += 1))
  await eventually(() => renewed >= count, `renewal ${count}`)
  listening[Symbol.dispose]()
}

async function work(locks: Locks, client: string, events: HistoryEvent[], isOver: () => boolean): Promise<void> {
  for (let turn = 0; !isOver(); turn += 1) {
    const attempt = `${client}/${turn}`
    events.push({ type: 'acquire', at: performance.now(), client, attempt, key: 'shared', mode: 'exclusive' })
    try {
      const lease = await locks.acquire('shared', { wait: 1000 })
      // Read the clock first: the deadline noted must not be later than the one the lease keeps.
      const now = performance.now()
      events.push({ type: 'granted', at: now, attempt, fence: lease.fence, deadline: now + lease.remainingMs })
      lease.signal.addEventListener('abort', () => events.push({ type: 'lost', at: performance.now(), attempt }))
      await pause(turn % 10 === 0 ? 600 : 5)
      events.push({ type: 'release', at: performance.now(), attempt })
      await lease.release()
    } catch {
      events.push({ type: 'refused', at: performance.now(), attempt })
    }
  }
}

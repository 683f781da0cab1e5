/** What counts as a stale holder, in every place that counts it: only a holder that had fallen silent. */
import { describe, expect, onTestFinished, test } from 'vitest'
import { connect, type ConnectOptions, type Locks } from '../../src/index.ts'
import { prometheus } from '../../src/telemetry/prometheus.ts'
import { folderForTest } from '../support/test-folder.ts'

let stores = 0
const urls: Readonly<Record<string, () => string>> = {
  memory: () => `memory:stale-detected-${(stores += 1)}`,
  sqlite: () => `sqlite:${folderForTest('stale-detected')}/locks.db`,
}

/** How the holder of `a` ends, and what the next acquire asks for. Leases last two seconds. */
interface Way {
  readonly end?: (holder: Locks, operator: Locks) => Promise<unknown>
  readonly next: Parameters<Locks['acquire']>[1]
  readonly silent?: boolean
  readonly stale: number
}

const ways: Readonly<Record<string, Way>> = {
  'forced out': { next: { onConflict: 'force' }, stale: 0 },
  evicted: { end: (_, operator) => operator.evict('a', { reason: 'stuck' }), next: {}, stale: 0 },
  'evicted while another waits': {
    end: async (_, operator) => {
      await expect.poll(async () => (await operator.inspect('a'))?.waiters.length).toBe(1)
      await operator.evict('a', { reason: 'stuck' })
    },
    next: {},
    stale: 0,
  },
  'evicted while a claim waits that takes over stale holders': {
    end: async (_, operator) => {
      await expect.poll(async () => (await operator.inspect('a'))?.waiters.length).toBe(1)
      await operator.evict('a', { reason: 'stale' })
    },
    next: { onConflict: 'steal-stale', staleAfter: '60s' },
    stale: 0,
  },
  reclaimed: { end: (holder) => holder.close(), next: { onConflict: 'reclaim' }, stale: 0 },
  'taken as stale': { next: { onConflict: 'steal-stale', staleAfter: '500ms' }, silent: true, stale: 1 },
  expired: { next: {}, silent: true, stale: 1 },
}

describe.each(Object.keys(urls))('over %s', (store) => {
  test.each(Object.entries(ways))(
    'a holder that is %s counts as stale only if it had fallen silent',
    async (name, way) => {
      const url = urls[store]?.() ?? ''
      const client = async (options: ConnectOptions = {}): Promise<Locks> => {
        const locks = await connect(url, { allowForce: true, ...options })
        onTestFinished(() => locks.close())
        return locks
      }
      const runner = name === 'reclaimed' ? { runner: 'stale-detected' } : {}
      const [holder, operator] = [await client(runner), await client()]
      const lease = await holder.acquire('a', { ttl: '2s', ...(way.silent === true && { heartbeat: 'manual' }) })
      if (name === 'reclaimed') await lease.handOff()
      const rival = name === 'reclaimed' ? undefined : await client()
      const reclaimer = async (): Promise<Locks> => {
        await holder.close()
        return client(runner)
      }
      const other = rival ?? (await reclaimer())
      using metrics = prometheus(other)
      const events: string[] = []
      other.on('takeover', () => events.push('takeover'))
      other.on('stale', () => events.push('stale'))
      const next = other.acquire('a', { ...way.next, wait: '10s' })
      await way.end?.(holder, operator)
      await next
      expect(events).toEqual(way.stale === 1 ? ['takeover', 'stale'] : ['takeover'])
      const { counters, staleLocksClaimed } = await other.stats()
      expect([counters['lock.takeover_detected'], counters['lock.stale_detected'], staleLocksClaimed]).toEqual([
        1,
        way.stale,
        way.stale,
      ])
      const text = await metrics.text()
      expect(Number(/^leasehold_stale_total\{[^}]*\} (\d+)$/m.exec(text)?.[1] ?? 0)).toBe(way.stale)
      expect(text).toMatch(/^leasehold_takeovers_total\{[^}]*\} 1$/m)
    },
  )
})

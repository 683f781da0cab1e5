import { expect } from '../vitest.ts'
import type { AcquireOptions } from '../../api/options.ts'
import { codeOf, settlesWithin } from './eventually.ts'
import type { PrimitiveNeed, PrimitiveFact } from './fact.ts'

const terms: readonly (readonly [PrimitiveNeed, AcquireOptions])[] = [
  ['no priority', { priority: 'high' }],
  ['no preempt', { onConflict: 'preempt' }],
  ['no maxHold', { maxHold: 1000 }],
  ['no grace', { grace: 1000 }],
]

/** Priority, preemption, eviction and grace. */
export function precedence(fact: PrimitiveFact): void {
  for (const [need, options] of terms) {
    fact(`a store with ${need} refuses ${Object.keys(options).join()}`, [need], async (group) => {
      const { locks } = await group.member()
      expect(await codeOf(locks.acquire('a', options))).toBe('UNSUPPORTED')
      await group.expectClaims(0)
    })
  }

  fact('a store that can evict nobody refuses evict', ['no evict'], async (group) => {
    const { locks } = await group.member()
    await using lease = await locks.acquire('a')
    expect(await codeOf(locks.evict('a', { reason: 'stuck' }))).toBe('UNSUPPORTED')
    expect(lease.held).toBe(true)
  })

  fact('who is evicted loses the lock at once, and is told', ['evict'], async (group) => {
    const [member, rival] = [await group.member({ ttl: 6000 }), await group.member({ ttl: 6000 })]
    const lease = await member.locks.acquire('a')
    expect(await rival.locks.evict('a', { reason: 'stuck', fence: lease.fence + 1 })).toBe(0)
    expect(await rival.locks.evict('a', { reason: 'stuck', fence: lease.fence })).toBe(1)
    const next = await rival.locks.acquire('a', { wait: 20_000 })
    expect(next.fence).toBeGreaterThan(lease.fence)
    await group.until(() => !lease.held)
    expect(lease.loss).toMatchObject({ code: 'LOST' })
  })

  fact('a claim of higher priority goes first', ['priority', 'queue'], async (group) => {
    const { locks } = await group.member({ ttl: 5000 })
    const first = await locks.acquire('a')
    const order: string[] = []
    const take = async (priority: 'low' | 'normal' | 'high') => {
      await using lease = await locks.acquire('a', { priority })
      if (lease.held) order.push(priority)
    }
    const turns: Promise<void>[] = []
    for (const [index, priority] of (['low', 'normal', 'high'] as const).entries()) {
      turns.push(take(priority))
      await group.expectClaims(index + 2)
    }
    await first.release()
    await Promise.all(turns)
    expect(order).toEqual(['high', 'normal', 'low'])
  })

  fact(
    'preempt tells the holder to leave, with the time left, and takes over on its release',
    ['preempt', 'queue'],
    async (group) => {
      const [member, rival] = [await group.member({ ttl: 10_000 }), await group.member({ ttl: 10_000 })]
      const lease = await member.locks.acquire('a')
      const leaving = new Promise<number>((resolve) =>
        member.locks.on('leaving', ({ remainingMs }) => resolve(remainingMs)),
      )
      const urgent = rival.locks.acquire('a', { priority: 'high', onConflict: 'preempt' })
      const leftMs = await leaving
      expect(leftMs).toBeGreaterThan(0)
      expect(leftMs).toBeLessThanOrEqual(10_000)
      expect(lease.held).toBe(true)
      expect(await settlesWithin(100, urgent)).toBe(false)
      await lease.release()
      expect((await urgent).fence).toBeGreaterThan(lease.fence)
    },
  )

  fact('preempt stops renewals: who does not leave is out when its lease ends', ['preempt', 'queue'], async (group) => {
    const [member, rival] = [await group.member({ ttl: 1500 }), await group.member({ ttl: 10_000 })]
    const lease = await member.locks.acquire('a')
    const urgent = await rival.locks.acquire('a', { priority: 'high', onConflict: 'preempt', wait: 20_000 })
    expect(lease.held).toBe(false)
    expect(lease.loss).toMatchObject({ code: 'LOST' })
    expect(urgent.held).toBe(true)
  })

  fact('the longest hold ends a lease that keeps renewing', ['maxHold'], async (group) => {
    const { locks, emitted } = await group.member({ ttl: 7000 })
    const startedAt = performance.now()
    const lease = await locks.acquire('a', { maxHold: 9000 })
    await group.until(() => !lease.held)
    expect(performance.now() - startedAt).toBeGreaterThan(8500)
    expect(emitted).toContain('renewed')
    await group.until(() => emitted.includes('lost'))
    expect(await locks.tryAcquire('a', { wait: 20_000 })).not.toBeNull()
  })

  fact('grace delays the takeover after an unclean end, and only then', ['grace', 'queue'], async (group) => {
    const [member, rival] = [await group.member({ ttl: 10_000 }), await group.member({ ttl: 10_000 })]
    const clean = await member.locks.acquire('a', { grace: 600_000 })
    const next = rival.locks.acquire('a')
    await group.expectClaims(2)
    await clean.release()
    const second = await next
    await second.release()
    const startedAt = performance.now()
    const unclean = await member.locks.acquire('a', { ttl: 2000, grace: 1000, heartbeat: 'manual' })
    await (await rival.locks.acquire('a')).release()
    expect(performance.now() - startedAt).toBeGreaterThan(2950)
    expect(unclean.held).toBe(false)
  })
}

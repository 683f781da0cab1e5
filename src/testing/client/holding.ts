import { setTimeout as pause } from 'node:timers/promises'
import { expect } from '../vitest.ts'
import type { Lease } from '../../api/lease.ts'
import type { FaultPlan } from '../faults.ts'
import type { ClientFact } from './fact.ts'

/** Long enough for a machine that is busy with other tests too, and may stand still for a second. */
const ttl = 3000
/** For a lease that must not be lost, though many clients may share one process and a machine with others. */
const keptTtl = 8000

/** A holder stops trusting its lease before the store gives it away, and not earlier than it must. */
export function holding(fact: ClientFact): void {
  const cuts: Readonly<Record<string, FaultPlan>> = {
    'whose requests fail': { reject: 1 },
    'whose requests hang': { hang: 1 },
  }
  for (const [title, plan] of Object.entries(cuts)) {
    fact(`a holder ${title} is warned, then stopped, before the store lets go`, async (group) => {
      const { locks, driver, emitted } = await group.member({ ttl })
      const lease = await locks.acquire('lock')
      driver.plan = plan
      while (lease.held) {
        const fences = (await group.claims()).map(({ fence }) => fence)
        // `held` is read before and after the listing: the listing shows the store while the lease was trusted.
        if (lease.held) expect(fences, 'the store keeps what its holder trusts').toEqual([lease.fence])
        await pause(5)
      }
      await lost(lease)
      expect(emitted.filter((name) => name === 'jeopardy' || name === 'lost')).toEqual(['jeopardy', 'lost'])
      expect(lease.held).toBe(false)
      expect(lease.signal.reason).toMatchObject({ code: 'LOST' })
    })
  }

  fact('a holder whose renewals go through but go unanswered stops too', async (group) => {
    const { locks, driver } = await group.member({ ttl })
    const lease = await locks.acquire('lock')
    driver.plan = { dropReply: 1 }
    await lost(lease)
    expect(await group.claims()).toHaveLength(1)
  })

  fact('a failed renewal is tried again while there is time, and ends nothing', async (group) => {
    const { locks, driver, emitted } = await group.member({ ttl: keptTtl })
    const lease = await locks.acquire('lock')
    driver.plan = { reject: 1 }
    await group.until(() => emitted.includes('renewal-failed'))
    expect(emitted).not.toContain('renewed')
    driver.plan = {}
    await group.until(() => emitted.includes('renewed'))
    await pause(keptTtl)
    expect(lease.held).toBe(true)
    expect(emitted).not.toContain('lost')
  })

  fact('a lease is kept past its ttl, again and again', async (group) => {
    const { locks, emitted } = await group.member({ ttl: keptTtl })
    const lease = await locks.acquire('lock')
    await pause(2.5 * keptTtl)
    expect(lease.held).toBe(true)
    expect(emitted.filter((name) => name === 'renewed').length).toBeGreaterThanOrEqual(4)
    expect(emitted).not.toContain('lost')
  })

  fact('a process that was busy for longer than the ttl has lost, at its first look', async (group) => {
    const { locks } = await group.member({ ttl: 1000 })
    const lease = await locks.acquire('lock')
    const until = performance.now() + 1100
    while (performance.now() < until) {
      // Blocks the event loop: no timer and no renewal runs meanwhile.
    }
    expect(lease.held).toBe(false)
    expect(lease.signal.aborted).toBe(true)
    expect(lease.remainingMs).toBe(0)
  })

  fact('who takes over has a higher fence, and the old holder can neither renew nor harm', async (group) => {
    const [first, second] = [await group.member({ ttl: 1000 }), await group.member({ ttl: 10_000 })]
    const old = await first.locks.acquire('lock')
    first.driver.plan = { reject: 1 }
    const lease = await second.locks.acquire('lock', { wait: 20_000 })
    expect(old.held).toBe(false)
    expect(lease.fence).toBeGreaterThan(old.fence)
    first.driver.plan = {}
    await expect(old.renew()).rejects.toMatchObject({ code: expect.stringMatching(/^(NOT_HELD|LOST)$/) as string })
    await old.release()
    expect(lease.held).toBe(true)
    expect((await group.claims()).map(({ fence }) => fence)).toEqual([lease.fence])
  })

  fact('closing lets go of all that is held', async (group) => {
    const { locks } = await group.member({ ttl: 30_000 })
    for (const name of ['one', 'two', 'three']) await locks.acquire(name)
    await group.expectClaims(3)
    await locks.close()
    await group.expectClaims(0)
  })
}

/** Resolves when the lease is lost, and its holder has seen that. */
async function lost(lease: Lease): Promise<void> {
  const { signal } = lease
  if (signal.aborted) return
  await new Promise((resolve) => {
    signal.addEventListener('abort', resolve, { once: true })
  })
}

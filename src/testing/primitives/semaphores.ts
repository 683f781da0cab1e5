import { setTimeout as pause } from 'node:timers/promises'
import { expect } from '../vitest.ts'
import { codeOf, rejectionOf } from './eventually.ts'
import type { PrimitiveFact } from './fact.ts'

/** As many holders as permits, and never more. */
export function semaphores(fact: PrimitiveFact): void {
  fact(
    'permits are leases of their own, and never too many, also when one expires',
    ['limit', 'queue'],
    async (group) => {
      const [dying, living] = [await group.member({ ttl: 3000 }), await group.member({ ttl: 15_000 })]
      const [silent, kept] = [
        await dying.locks.semaphore('s', 2).acquire(),
        await living.locks.semaphore('s', 2).acquire(),
      ]
      dying.driver.plan = { reject: 1 }
      let granted = false
      const waiting = living.locks
        .semaphore('s', 2)
        .acquire()
        .finally(() => (granted = true))
      let most = 0
      // And some more looks at what is held once the third has its permit.
      for (let looksAfter = 0; looksAfter < 10; looksAfter += granted ? 1 : 0) {
        const held = (await group.claims()).filter(({ state }) => state === 'held').length
        most = Math.max(most, held)
        await pause(50)
      }
      expect(most).toBe(2)
      const next = await waiting
      expect(new Set([silent.fence, kept.fence, next.fence]).size).toBe(3)
      expect([silent.held, kept.held, next.held]).toEqual([false, true, true])
    },
  )

  fact('a store without limits refuses semaphores', ['no limit'], async (group) => {
    const { locks } = await group.member()
    expect(await codeOf(locks.semaphore('s', 2).acquire())).toBe('UNSUPPORTED')
    expect(await codeOf(locks.semaphore('s', 2).tryAcquire())).toBe('UNSUPPORTED')
    await group.expectClaims(0)
  })

  fact('another number of permits is told SCOPE_MISMATCH', ['limit'], async (group) => {
    const [member, rival] = [await group.member({ ttl: 5000 }), await group.member({ ttl: 5000 })]
    await member.locks.semaphore('s', 2).acquire()
    expect(await rejectionOf(rival.locks.semaphore('s', 3).acquire())).toMatchObject({ code: 'SCOPE_MISMATCH' })
    await group.expectClaims(1)
  })
}

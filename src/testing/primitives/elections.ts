import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'
import type { PrimitiveFact } from './fact.ts'

/** One leader, and who it is. */
export function elections(fact: PrimitiveFact): void {
  fact(
    'a leader that resigns is replaced at once, one that falls silent within its ttl',
    ['queue'],
    async (company) => {
      const [one, other] = [await company.member(), await company.member()]
      const [first, second] = [one.locks.elect('boss', { ttl: 10_000 }), other.locks.elect('boss', { ttl: 1000 })]
      const told: string[] = []
      const third = one.locks.elect('boss', { ttl: 1000, onElected: ({ held }) => void told.push(`elected ${held}`) })
      const term = await first.campaign()
      expect(await second.tryCampaign()).toBe(false)
      const succession = second.campaign()
      await company.expectClaims(2)
      const resignedAt = performance.now()
      await first.resign()
      expect((await succession).fence).toBeGreaterThan(term.fence)
      expect(performance.now() - resignedAt).toBeLessThan(2000)
      const campaign = third.campaign()
      await pause(100)
      expect(told).toEqual([])
      other.driver.plan = { reject: 1 }
      await campaign
      expect(second.isLeader).toBe(false)
      expect(told).toEqual(['elected true'])
      expect(await third.leader()).toMatchObject({ isMe: true, term: third.term })
      await second.resign()
    },
  )

  fact('observers see every change', ['queue'], async (company) => {
    const [one, observer] = [await company.member({ ttl: 5000 }), await company.member()]
    const seen: (number | undefined)[] = []
    const watching = (async () => {
      for await (const leader of observer.locks.elect('boss', { observeEvery: 20 })) {
        seen.push(leader?.term)
        if (seen.length === 3) break
      }
    })()
    await pause(100)
    const election = one.locks.elect('boss')
    const { fence } = await election.campaign()
    await pause(100)
    await election.resign()
    await watching
    expect(seen).toEqual([undefined, fence, undefined])
  })
}

import { expect } from '../vitest.ts'
import type { PrimitiveFact } from './fact.ts'

/** One leader, and who it is. */
export function elections(fact: PrimitiveFact): void {
  fact('a leader that resigns is replaced at once, one that falls silent within its ttl', [], async (group) => {
    const [member, rival] = [await group.member(), await group.member()]
    const [first, second] = [member.locks.elect('boss', { ttl: 30_000 }), rival.locks.elect('boss', { ttl: 3000 })]
    const elected: string[] = []
    const third = member.locks.elect('boss', {
      ttl: 10_000,
      onElected: ({ held }) => void elected.push(`elected ${held}`),
    })
    const term = await first.campaign()
    expect(await second.tryCampaign()).toBe(false)
    const succession = second.campaign()
    await group.contended(rival)
    const resignedAt = performance.now()
    await first.resign()
    expect((await succession).fence).toBeGreaterThan(term.fence)
    expect(performance.now() - resignedAt).toBeLessThan(20_000)
    const campaign = third.campaign()
    await group.contended(member)
    expect(elected).toEqual([])
    rival.driver.plan = { reject: 1 }
    await campaign
    expect(second.isLeader).toBe(false)
    expect(elected).toEqual(['elected true'])
    expect(await third.leader()).toMatchObject({ isMe: true, term: third.term })
    await second.resign()
  })

  fact('observers see every change', [], async (group) => {
    const [member, observer] = [await group.member({ ttl: 5000 }), await group.member()]
    const seen: (string | undefined)[] = []
    const terms: (number | undefined)[] = []
    const watching = (async () => {
      for await (const leader of observer.locks.elect('boss', { observeEvery: 20 })) {
        seen.push(leader?.runner.client)
        // On some stores a session cannot read the fence of another: the term is then 0.
        if (leader?.term !== 0) terms.push(leader?.term)
        if (seen.length === 3) break
      }
    })()
    await group.until(() => seen.length === 1)
    const election = member.locks.elect('boss')
    const { fence } = await election.campaign()
    await group.until(() => seen.length === 2)
    await election.resign()
    await watching
    expect(seen).toEqual([undefined, member.locks.runner.client, undefined])
    expect(terms.filter((term) => term !== undefined && term !== fence)).toEqual([])
  })
}

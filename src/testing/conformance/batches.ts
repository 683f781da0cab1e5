import { expect } from '../vitest.ts'
import type { Claim, ClaimStatus, Request } from '../../core/contract/driver.ts'
import type { Fact } from './fact.ts'

/** One `send` carries many requests, each answered in its place. */
export function batches(fact: Fact): void {
  fact('nothing asked is nothing answered', [], async (stage) => {
    expect(await stage.first.send([])).toEqual([])
  })

  fact('many keys in one send are answered in their order', [], async (stage) => {
    await stage.hold('taken', { key: 'stage/named:7' })
    const requests = Array.from({ length: 40 }, (_, index): Request => {
      return { op: 'claim', claim: stage.draft(`claim ${index}`, { key: `stage/named:${index}`, wait: false }) }
    })
    const statuses = await stage.second.send(requests)
    expect(statuses.map(({ state }) => state)).toEqual(requests.map((_, index) => (index === 7 ? 'absent' : 'held')))
  })

  fact('requests of one key are carried out one after the other', ['queue'], async (stage) => {
    const [first, second] = [stage.draft('one'), stage.draft('two')]
    const { key } = stage
    const statuses = await stage.first.send([
      { op: 'claim', claim: first },
      { op: 'claim', claim: second },
      { op: 'renew', key, id: first.id, ttlMs: stage.ms(20) },
      { op: 'release', key, id: first.id },
      { op: 'renew', key, id: second.id, ttlMs: stage.ms(20) },
      { op: 'release', key, id: first.id },
      { op: 'release', key, id: second.id },
      { op: 'renew', key, id: second.id, ttlMs: stage.ms(20) },
    ])
    expect(statuses.map(summary)).toEqual([
      'held',
      'waiting',
      'held',
      'released',
      'held',
      'unknown',
      'released',
      'unknown',
    ])
    expect(await stage.listed()).toHaveLength(0)
  })

  fact('keys may come mixed in one send', [], async (stage) => {
    const requests: Request[] = []
    for (const key of ['stage/named:a', 'stage/named:b', 'stage/named:a', 'stage/named:c', 'stage/named:b']) {
      requests.push({ op: 'claim', claim: stage.draft(`claim ${requests.length}`, { key, wait: false }) })
    }
    const statuses = await stage.first.send(requests)
    expect(statuses.map(summary)).toEqual(['held', 'held', 'refused', 'held', 'refused'])
  })

  fact("sends at the same time do not get in each other's way", [], async (stage) => {
    const drivers = [stage.first, stage.second, await stage.anotherDriver()] as const
    // The second time, the store knows the key.
    for (const time of [1, 2]) {
      const claims = Array.from({ length: 30 }, (_, index) => stage.draft(`claim ${time}.${index}`, { wait: false }))
      const sendAll = async (requestOf: (claim: Claim) => Request): Promise<readonly string[]> => {
        const sends = claims.map((claim, index) => drivers[(index % 3) as 0 | 1 | 2].send([requestOf(claim)]))
        return (await Promise.all(sends)).map(([answer]) => summary(answer))
      }
      const statuses = await sendAll((claim) => ({ op: 'claim', claim }))
      expect(statuses.filter((status) => status === 'held')).toHaveLength(1)
      expect(statuses.filter((status) => status === 'refused')).toHaveLength(29)
      await sendAll(({ key, id }) => ({ op: 'release', key, id }))
    }
  })

  fact('a batch of five hundred is answered whole', [], async (stage) => {
    const claims = Array.from({ length: 500 }, (_, index) =>
      stage.draft(`claim ${index}`, { key: `stage/named:${index}` }),
    )
    const statuses = await stage.first.send(claims.map((claim): Request => ({ op: 'claim', claim })))
    expect(new Set(statuses.map(summary))).toEqual(new Set(['held']))
    const releases = claims.map(({ key, id }): Request => ({ op: 'release', key, id }))
    expect(new Set((await stage.first.send(releases)).map(summary))).toEqual(new Set(['released']))
  })
}

function summary(status: ClaimStatus | undefined): string {
  return status?.state === 'absent' ? status.reason : (status?.state ?? 'no answer')
}

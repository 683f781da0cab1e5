import { expect } from 'vitest'
import type { Claim, ClaimStatus, LockDriver, Request } from '../../src/core/contract/driver.ts'
import { claimOf, claiming } from './claims.ts'

const over = { state: 'absent', reason: 'expired' }

/** Sends the requests, alone or all at once. */
async function sent(
  driver: LockDriver,
  requests: readonly Request[],
  way: 'alone' | 'at once',
): Promise<ClaimStatus[]> {
  if (way === 'at once') return [...(await driver.send(requests))]
  const statuses: ClaimStatus[] = []
  for (const request of requests) statuses.push(...(await driver.send([request])))
  return statuses
}

/**
 * At the exact end of a lease it is over for everybody: its owner, who renews or releases it alone or beside others that go on, and whoever
 * waits. `advance` moves the store's clock.
 */
export async function expectExactEnds(
  driver: LockDriver,
  advance: (milliseconds: number) => Promise<void>,
  way: 'alone' | 'at once',
): Promise<void> {
  const short = (key: string, wish: Partial<Claim> = {}): Claim => claimOf(`${way}-${key}`, { ttlMs: 1000, ...wish })
  const renewed = short('a')
  const released = short('b')
  const shared = short('c', { mode: 'shared' })
  const beside = short('c', { mode: 'shared', ttlMs: 5000 })
  const handed = short('d')
  const next = short('d', { ttlMs: 5000 })
  await sent(driver, [renewed, released, shared, beside, handed].map(claiming), way)
  await sent(driver, [claiming(next)], 'alone')
  await advance(1000)
  const renewing = ({ key, id, ttlMs }: Claim): Request => ({ op: 'renew', key, id, ttlMs })
  const releasing = ({ key, id }: Claim): Request => ({ op: 'release', key, id })
  const requests = [
    renewing(renewed),
    releasing(released),
    renewing(shared),
    renewing(beside),
    releasing(handed),
    renewing(next),
  ]
  expect(await sent(driver, requests, way)).toMatchObject([
    over,
    over,
    over,
    { state: 'held' },
    over,
    { state: 'held', after: { how: 'expired' } },
  ])
}

/** Hand-overs in which a shortcut may not do what it does for plain claims: what the rule would do is expected. */
export async function expectHandOvers(
  driver: LockDriver,
  advance: (milliseconds: number) => Promise<void>,
): Promise<void> {
  const renewed = ({ key, id, ttlMs }: Claim): Promise<ClaimStatus[]> =>
    sent(driver, [{ op: 'renew', key, id, ttlMs }], 'alone')
  const released = ({ key, id }: Claim): Promise<ClaimStatus[]> => sent(driver, [{ op: 'release', key, id }], 'alone')
  const queued = async (key: string, ...wishes: readonly Partial<Claim>[]): Promise<Claim[]> => {
    const claims = wishes.map((wish) => claimOf(key, wish))
    await sent(driver, claims.map(claiming), 'alone')
    return claims
  }
  const [first, dead = claimOf(''), second = claimOf('')] = await queued('dead', {}, { ttlMs: 1000 }, {}, {})
  const [brief, bounded = claimOf('')] = await queued('bounded', {}, { maxHoldMs: 2000 }, {}, {})
  const [, reader, heir = claimOf('')] = await queued(
    'unclean',
    { mode: 'shared', ttlMs: 1000 },
    { mode: 'shared' },
    {},
    {},
  )
  const [whole, ranged = claimOf(''), behind = claimOf('')] = await queued(
    'ranged',
    {},
    { range: { start: 0, end: 10 } },
    {},
  )
  const brieflyHeld = claimOf('over', { ttlMs: 1000 })
  await sent(driver, [claiming(brieflyHeld), claiming(claimOf('over')), claiming(claimOf('over'))], 'alone')
  const [blocking] = await sent(
    driver,
    [claiming(claimOf('grace', { ttlMs: 1000, graceMs: 5000 })), claiming(claimOf('grace'))],
    'alone',
  ).then((statuses) => statuses.slice(1))
  expect(blocking).toMatchObject({ state: 'waiting', againMs: 6000 })
  await advance(1000)
  // Whoever comes now finds the first reader over; the end is kept for the heir.
  await sent(driver, [claiming(claimOf('unclean'))], 'alone')
  for (const holder of [first, brief, reader, whole]) {
    if (holder !== undefined) expect(await released(holder)).toEqual([{ state: 'absent', reason: 'released' }])
  }
  // The first waiter's time was over before its turn came: it never held, so nobody takes over from it.
  const [next] = await renewed(second)
  expect(next).toMatchObject({ state: 'held' })
  expect(next?.state === 'held' && next.after).toBeUndefined()
  expect(await renewed(behind)).toMatchObject([{ state: 'waiting' }])
  expect(await renewed(ranged)).toMatchObject([{ state: 'held' }])
  expect(await renewed(dead)).toMatchObject([{ state: 'absent' }])
  const { now, keys } = await driver.list({ key: bounded.key })
  const listed = keys.flatMap(({ claims }) => claims).find(({ id }) => id === bounded.id)
  expect((listed?.expiresAt ?? Infinity) - now).toBeLessThanOrEqual(2000)
  expect(await renewed(bounded)).toMatchObject([{ state: 'held', ttlMs: 2000 }])
  expect(await renewed(heir)).toMatchObject([{ state: 'held', after: { how: 'expired' } }])
  // The holder is over, and the first waiter holds: only one is left ahead of a newcomer.
  expect(await sent(driver, [claiming(claimOf('over'))], 'alone')).toMatchObject([{ state: 'waiting', ahead: 1 }])
}

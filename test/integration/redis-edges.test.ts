import { afterAll, expect, test } from 'vitest'
import type { HeldStatus } from '../../src/core/contract/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { ask, claim, claimOf, fenceOf, release, renew } from '../support/claims.ts'
import { expectExactEnds, expectHandOvers } from '../support/exact-end.ts'
import { opened } from '../support/opened.ts'
import { RedisServer } from '../support/redis-server.ts'

const server = await RedisServer.start()
afterAll(() => server.stop())

test.each(['alone', 'at once'] as const)(
  'at the exact end of a lease it is over for requests that come %s',
  async (way) => {
    let time = Date.now()
    const driver = await opened(redis({ url: server.url, clockForTests: () => time }))
    await expectExactEnds(driver, async (milliseconds) => void (time += milliseconds), way)
  },
)

test('a hand-over to a claim that is not plain, or behind one that is over, is as the rule says', async () => {
  let time = Date.now()
  const driver = await opened(redis({ url: server.url, clockForTests: () => time }))
  await expectHandOvers(driver, async (milliseconds) => void (time += milliseconds))
})

test('an id that begins like the holder’s, or is as long, neither renews nor releases', async () => {
  const driver = await opened(redis(server.url))
  const holder = claimOf('near', { id: 'holder-12' })
  await claim(driver, holder)
  for (const id of ['holder-1', 'holder-13', 'holder-123']) {
    const stranger = { ...holder, id }
    for (const send of [renew, release])
      expect(await send(driver, stranger)).toEqual({ state: 'absent', reason: 'unknown' })
    const { key } = holder
    const requests = [
      { op: 'renew', key, id, ttlMs: 60_000 },
      { op: 'release', key, id },
      { op: 'release', key: 'near-other', id: 'nobody' },
    ] as const
    const unknown = { state: 'absent', reason: 'unknown' }
    expect(await driver.send(requests)).toEqual([unknown, unknown, unknown])
  }
  expect(await renew(driver, holder)).toMatchObject({ state: 'held' })
})

test('what an earlier version stored of an eviction has no cause', async () => {
  const driver = await opened(redis(server.url))
  const fence = fenceOf(await claim(driver, claimOf('earlier')))
  await ask(driver, { op: 'evict', key: 'earlier', fence, reason: 'stuck' })
  const record = (await server.cli('--scan', '--pattern', '*k:earlier')).split('\n')
  expect(record).toHaveLength(1)
  const script = `
    local head = cmsgpack.unpack(redis.call('GET', KEYS[1]))
    if table.remove(head[4], 8) ~= 'operator' then return 'no cause' end
    redis.call('SET', KEYS[1], cmsgpack.pack(head), 'KEEPTTL')
    return 'removed'`
  expect(await server.cli('eval', script, '1', record[0] ?? '')).toBe('removed')
  const next = claimOf('earlier')
  for (const status of [await claim(driver, next), await renew(driver, next)]) {
    expect(status).toMatchObject({ state: 'held', after: { how: 'evicted', fence } })
    expect((status as HeldStatus).after).not.toHaveProperty('cause')
  }
})

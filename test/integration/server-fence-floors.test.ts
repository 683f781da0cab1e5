import { expect, onTestFinished, test } from 'vitest'
import type { Request } from '../../src/core/contract/driver.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { http } from '../../src/drivers/http/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { quorum } from '../../src/drivers/quorum/driver.ts'
import { createLocks } from '../../src/index.ts'
import type { TokenOptions } from '../../src/server/index.ts'
import { postRequests } from '../support/called.ts'
import { claimOf } from '../support/claims.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

const tokens: readonly TokenOptions[] = [
  { name: 'tenant', token: tokenOf('tenant'), namespaces: ['billing'], rights: ['lock'] },
  { name: 'other', token: tokenOf('other'), namespaces: ['other'], rights: ['lock'] },
]

const key = 'billing/named:invoice'

/** The fence of a new claim of the other tenant. */
async function otherFence(url: string): Promise<number> {
  const claim = claimOf('other/named:x')
  const { value } = await postRequests(url, [{ op: 'claim', claim }], tokenOf('other'))
  await postRequests(url, [{ op: 'release', key: claim.key, id: claim.id }], tokenOf('other'))
  return (value as { statuses: [{ fence: number }] }).statuses[0].fence
}

test.each([0.3, 4, 60, 3000])(
  'a tenant that lifts its fences %d s ahead lets no fence of another fall when a memory store restarts',
  async (seconds) => {
    const before = await startServer({ tokens, driver: memory() })
    const own = claimOf(key)
    await postRequests(before.url, [{ op: 'claim', claim: own }], tokenOf('tenant'))
    const fenceFloor = (Date.now() + seconds * 1000) * 1000
    const lift: Request = { op: 'renew', key, id: own.id, ttlMs: 60_000, fenceFloor }
    await postRequests(before.url, [lift], tokenOf('tenant'))
    const first = await otherFence(before.url)
    await before.close()
    const after = await startServer({ tokens, driver: memory() })
    expect(await otherFence(after.url)).toBeGreaterThan(first)
  },
)

test('a tenant whose calls wait for the clock leaves places for the calls of others', async () => {
  const { url } = await startServer({ tokens, driver: memory(), limits: { callsMax: 40, callsPerTokenMax: 40 } })
  const own = claimOf(key)
  await postRequests(url, [{ op: 'claim', claim: own }], tokenOf('tenant'))
  const fenceFloor = (Date.now() + 4000) * 1000
  const lift: Request = { op: 'renew', key, id: own.id, ttlMs: 60_000, fenceFloor }
  const lifts = Promise.all(Array.from({ length: 40 }, () => postRequests(url, [lift], tokenOf('tenant'))))
  // Refusals come at once, so that by the first of them the others wait.
  const refused = await Promise.race([lifts, postRequests(url, [lift], tokenOf('tenant'))])
  expect(refused).toMatchObject({ status: 429 })
  expect(await otherFence(url)).toBeGreaterThan(0)
  const answers = await lifts
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(16)
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(24)
}, 30_000)

/** A server whose clocks, its own and its store's, are ahead by so much. */
async function serverAhead(aheadMs: number): Promise<string> {
  const wall = (): number => Date.now() + aheadMs
  const { url } = await startServer({
    tokens,
    driver: memory({ clock: { now: () => performance.now(), wall } }),
    environment: { ...systemEnvironment(), wall },
  })
  return url
}

test.each([0, 300])(
  'a quorum of servers locks with the smallest token, also if one clock is %d ms ahead, and its fences grow',
  async (aheadMs) => {
    const urls = await Promise.all([serverAhead(0), serverAhead(0), serverAhead(aheadMs)])
    const driver = quorum(
      urls.map((url) => http({ url, token: tokenOf('tenant') })),
      { votesAfter: 0 },
    )
    const locks = await createLocks({ driver, namespace: 'billing' })
    onTestFinished(() => locks.close())
    let last = 0
    for (let rounds = 0; rounds < 3; rounds += 1) {
      const lease = await locks.acquire('invoice', { wait: '20s' })
      expect(lease.fence).toBeGreaterThan(last)
      last = lease.fence
      await lease.renew()
      await lease.release()
    }
  },
)

test('only an administrator lifts fences further past the clock than clocks may differ', async () => {
  const { url } = await startServer({
    tokens: [...tokens, { name: 'root', token: tokenOf('root'), namespaces: '*', rights: ['admin'] }],
  })
  const own = claimOf(key)
  await postRequests(url, [{ op: 'claim', claim: own }], tokenOf('tenant'))
  const fenceFloor = (Date.now() + 60_000) * 1000
  const lift: Request = { op: 'renew', key, id: own.id, ttlMs: 60_000, fenceFloor }
  expect(await postRequests(url, [lift], tokenOf('tenant'))).toMatchObject({
    status: 403,
    value: { error: { message: expect.stringMatching(/lacks the right 'admin'.*Do the clocks agree/) } },
  })
  const lifted = await postRequests(url, [lift], tokenOf('root'))
  expect(lifted.value).toMatchObject({ statuses: [{ state: 'held', fence: fenceFloor }] })
})

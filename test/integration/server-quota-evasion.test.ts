/** Ways around the quotas of claims that a tenant might try. */
import { describe, expect, test } from 'vitest'
import type { Claim, Request } from '../../src/core/contract/driver.ts'
import type { TokenOptions } from '../../src/server/index.ts'
import { get, postRequests, type Called } from '../support/called.ts'
import { claimOf, claiming } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

const hostile = tokenOf('hostile')
const tokens: readonly TokenOptions[] = [
  { name: 'hostile', token: hostile, namespaces: ['hostile'], rights: ['lock', 'read', 'evict'] },
]
const statesOf = ({ value }: Called): readonly string[] =>
  (value as { readonly statuses: readonly { readonly state: string }[] }).statuses.map(({ state }) => state)
const renewing = ({ key, id, ttlMs }: Claim): Request => ({ op: 'renew', key, id, ttlMs })
const releasing = ({ key, id }: Claim): Request => ({ op: 'release', key, id })
const hourMs = 3_600_000

async function claimsCounted(url: string): Promise<number> {
  const { text } = await get(`${url}/metrics`, hostile)
  return Number(/^leasehold_server_claims (\d+)$/m.exec(text)?.[1])
}

describe('a claim counts against the share of its token', () => {
  test('though a renewal of the same id stands before it in the call', async () => {
    const { url } = await startServer({ tokens, limits: { claimsPerTokenMax: 2 } })
    const wanted = Array.from({ length: 5 }, (_, index) => claimOf(`hostile/named:${index}`))
    const requests = wanted.flatMap((claim) => [renewing(claim), claiming(claim)])
    const states = statesOf(await postRequests(url, requests, hostile))
    expect(states.filter((state) => state === 'held')).toHaveLength(2)
    expect(await claimsCounted(url)).toBe(2)
  })

  test('with its waiting, though the same id was refused before it in the call', async () => {
    const { url } = await startServer({ tokens, limits: { waitersPerTokenMax: 2 } })
    await postRequests(url, [claiming(claimOf('hostile/named:a'))], hostile)
    const wanted = Array.from({ length: 5 }, () => claimOf('hostile/named:a'))
    const requests = wanted.flatMap((claim) => [claiming({ ...claim, wait: false }), claiming(claim)])
    const states = statesOf(await postRequests(url, requests, hostile))
    expect(states.filter((state) => state === 'waiting')).toHaveLength(2)
  })

  test('with its metadata, though the same id had none before it in the call', async () => {
    const { url } = await startServer({ tokens, limits: { claimBytesPerTokenMax: 20_000 } })
    const plain = claimOf('hostile/named:a')
    const metadata = { long: 'x'.repeat(10_000) }
    const requests = [0, 1, 2, 3].flatMap((index) => {
      const claim = { ...plain, key: `hostile/named:${index}` }
      return [claiming(claim), releasing(claim), claiming({ ...claim, runner: { ...claim.runner, metadata } })]
    })
    const states = statesOf(await postRequests(url, requests, hostile))
    expect(states.filter((_, index) => index % 3 === 2)).toEqual(['held', 'unknown', 'unknown', 'unknown'])
  })

  test('for as long as the store keeps it: in its grace too', async () => {
    const { url } = await startServer({ tokens, limits: { claimsPerTokenMax: 1 } })
    const first = claimOf('hostile/named:a', { ttlMs: 1, graceMs: hourMs })
    await postRequests(url, [claiming(first)], hostile)
    const isOver = async () => statesOf(await postRequests(url, [renewing(first)], hostile))[0] === 'absent'
    await eventually(isOver, 'the end of the lease')
    expect((await postRequests(url, [claiming(claimOf('hostile/named:b'))], hostile)).status).toBe(429)
  })

  test('for as long as the store remembers its end: after its longest hold, and after an eviction', async () => {
    const { url } = await startServer({ tokens, limits: { claimsPerTokenMax: 2 } })
    const first = claimOf('hostile/named:a', { ttlMs: hourMs, maxHoldMs: 1 })
    const second = claimOf('hostile/named:b', { ttlMs: hourMs })
    const made = await postRequests(url, [claiming(first), claiming(second)], hostile)
    const { fence } = (made.value as { readonly statuses: readonly { readonly fence: number }[] }).statuses[1] ?? {}
    await postRequests(url, [{ op: 'evict', key: second.key, fence: fence ?? 0, reason: 'a test' }], hostile)
    const isOver = async () => statesOf(await postRequests(url, [renewing(first)], hostile))[0] === 'absent'
    await eventually(isOver, 'the end of the hold')
    await postRequests(url, [releasing(first), releasing(second)], hostile)
    expect((await postRequests(url, [claiming(claimOf('hostile/named:c'))], hostile)).status).toBe(429)
  })
})

test('a claim that was converted counts no more, and one that was sent again counts once', async () => {
  const { url } = await startServer({ tokens, limits: { claimsPerTokenMax: 2 } })
  let held = claimOf('hostile/named:a', { mode: 'shared' })
  expect(statesOf(await postRequests(url, [claiming(held), claiming(held)], hostile))).toEqual(['held', 'held'])
  for (const mode of ['exclusive', 'shared', 'exclusive', 'shared'] as const) {
    const next = claimOf('hostile/named:a', { mode, replaces: held.id })
    expect(statesOf(await postRequests(url, [claiming(next)], hostile))).toEqual(['held'])
    held = next
  }
  expect(await claimsCounted(url)).toBe(1)
  await postRequests(url, [releasing(held)], hostile)
  expect(await claimsCounted(url)).toBe(0)
})

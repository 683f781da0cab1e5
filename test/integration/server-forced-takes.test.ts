import { describe, expect, test } from 'vitest'
import type { Claim, EvictRule, Request } from '../../src/core/contract/driver.ts'
import type { TokenOptions } from '../../src/server/index.ts'
import { postRequests } from '../support/called.ts'
import { claimOf } from '../support/claims.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

const tokens: readonly TokenOptions[] = [
  { name: 'owner', token: tokenOf('owner'), namespaces: ['billing'], rights: ['lock'] },
  { name: 'neighbour', token: tokenOf('neighbour'), namespaces: ['billing'], rights: ['lock', 'read'] },
  { name: 'warden', token: tokenOf('warden'), namespaces: ['billing'], rights: ['lock', 'evict'] },
]

const key = 'billing/named:invoice'

/** A claim that takes the place of a live holder by each rule. */
const takes: readonly (readonly [EvictRule, Partial<Claim>])[] = [
  ['all', {}],
  ['stale', { staleMs: 0 }],
  ['same-runner', {}],
  ['lower-priority', { priority: 1 }],
]

describe.each(takes)('a claim that takes by the rule %s', (evict, wish) => {
  const forced: Request = { op: 'claim', claim: claimOf(key, { ...wish, evict }) }

  test('is refused without the right to evict, and the holder stays', async () => {
    const { url } = await startServer({ tokens })
    const held = claimOf(key)
    await postRequests(url, [{ op: 'claim', claim: held }], tokenOf('owner'))
    expect(await postRequests(url, [forced], tokenOf('neighbour'))).toMatchObject({
      status: 403,
      value: { error: { reason: 'auth', message: expect.stringMatching(/"neighbour" lacks the right 'evict'/) } },
    })
    const renewal: Request = { op: 'renew', key, id: held.id, ttlMs: 60_000 }
    const renewed = await postRequests(url, [renewal], tokenOf('owner'))
    expect(renewed.value).toEqual({ statuses: [expect.objectContaining({ state: 'held' })] })
    expect(renewed.text).not.toContain('leaving')
  })

  test('is carried out with it', async () => {
    const { url } = await startServer({ tokens })
    const held = claimOf(key)
    await postRequests(url, [{ op: 'claim', claim: held }], tokenOf('owner'))
    expect(await postRequests(url, [forced], tokenOf('warden'))).toMatchObject({ status: 200 })
    const renewal: Request = { op: 'renew', key, id: held.id, ttlMs: 60_000 }
    const { value } = await postRequests(url, [renewal], tokenOf('owner'))
    const [status] = (value as { statuses: [{ state: string; leaving?: string }] }).statuses
    expect(status.state === 'absent' || status.leaving === 'preempted').toBe(true)
  })
})

/** What a claim says of its owner proves nothing: deadlock detection of one token does not take another's word for it. */
import { expect, onTestFinished, test } from 'vitest'
import { http } from '../../src/drivers/http/driver.ts'
import type { CyclesDocument } from '../../src/dashboard/documents.ts'
import { createLocks, type Locks } from '../../src/index.ts'
import { dashboard } from '../../src/server/operators.ts'
import { get, postRequests } from '../support/called.ts'
import { claimOf, claiming } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

const tokens = ['one', 'two', 'forger'].map((name) => {
  return { name, token: tokenOf(name), namespaces: ['shared'], rights: ['lock', 'read'] as const }
})

async function locksOf(url: string, name: string): Promise<Locks> {
  const locks = await createLocks({ driver: http({ url, token: tokenOf(name) }), namespace: 'shared' })
  onTestFinished(() => locks.close())
  return locks
}

/** What became of an acquisition: its code, or that it was granted, and then released. */
function outcomeOf(locks: Locks, name: string, owner: string, wait: '4s' | '8s'): Promise<string> {
  return locks.acquire(name, { owner, wait }).then(
    (lease) => lease.release().then(() => 'granted'),
    (error: { readonly code: string }) => error.code,
  )
}

interface Listed {
  readonly keys: readonly [{ readonly claims: readonly { readonly runner: { client: string; owner: string } }[] }]
}

test('a tenant that forges the owner of a holder makes nobody give way', async () => {
  const { url } = await startServer({ tokens })
  const [one, two] = await Promise.all([locksOf(url, 'one'), locksOf(url, 'two')])
  await using held = await two.acquire('b', { owner: 'holder' })
  await using own = await one.acquire('a', { owner: 'waiter' })
  const waiting = outcomeOf(one, 'b', 'waiter', '4s')
  // The forger reads who holds, and waits in that one's name for what the waiter holds.
  const { value } = await get(`${url}/v1/keys?key=shared/named:b`, tokenOf('forger'))
  const [holder] = (value as Listed).keys[0].claims
  for (const client of new Set([holder?.runner.client ?? '', two.runner.client])) {
    const forged = claimOf('shared/named:a', { wait: true })
    const runner = { ...forged.runner, client, owner: holder?.runner.owner, holds: ['named:b'] }
    await postRequests(url, [claiming({ ...forged, runner })], tokenOf('forger'))
  }
  expect(await waiting).toBe('TIMEOUT')
  expect([held.signal.aborted, own.signal.aborted]).toEqual([false, false])
}, 20_000)

test('a tenant that forges the owner of a holder makes no cycle that operators see', async () => {
  const operator = { name: 'operator', token: tokenOf('operator'), namespaces: '*', rights: ['read'] } as const
  const { url } = await startServer({ tokens: [...tokens, operator], routes: dashboard({ history: false }) })
  const [one, two] = await Promise.all([locksOf(url, 'one'), locksOf(url, 'two')])
  await using held = await two.acquire('b', { owner: 'holder' })
  await using own = await one.acquire('a', { owner: 'waiter' })
  const waiting = outcomeOf(one, 'b', 'waiter', '4s')
  const { value } = await get(`${url}/v1/keys?key=shared/named:b`, tokenOf('forger'))
  const [holder] = (value as Listed).keys[0].claims
  for (const client of new Set([holder?.runner.client ?? '', two.runner.client])) {
    const forged = claimOf('shared/named:a', { wait: true })
    const runner = { ...forged.runner, client, owner: holder?.runner.owner }
    await postRequests(url, [claiming({ ...forged, runner })], tokenOf('forger'))
  }
  for (const reader of ['operator', 'one', 'two', 'forger']) {
    const { value: seen } = await get(`${url}/v1/cycles`, tokenOf(reader))
    // The waiter, and the two claims of the forger, who owns nothing that anybody waits for.
    expect([reader, seen]).toMatchObject([reader, { cycles: [] }])
    expect((seen as CyclesDocument).waits.filter(({ because }) => because === 'holds')).toHaveLength(3)
  }
  expect(await waiting).toBe('TIMEOUT')
  expect([held.signal.aborted, own.signal.aborted]).toEqual([false, false])
}, 20_000)

test('a deadlock between clients of two tokens is found', async () => {
  const { url } = await startServer({ tokens, routes: dashboard({ history: false }) })
  const [one, two] = await Promise.all([locksOf(url, 'one'), locksOf(url, 'two')])
  await using a = await one.acquire('a', { owner: 'first' })
  await using b = await two.acquire('b', { owner: 'second' })
  const outcomes = Promise.all([outcomeOf(one, 'b', 'first', '8s'), outcomeOf(two, 'a', 'second', '8s')])
  const seen = async (): Promise<number> =>
    ((await get(`${url}/v1/cycles`, tokenOf('forger'))).value as CyclesDocument).cycles.length
  await eventually(async () => (await seen()) === 1, 'the cycle that operators see')
  const codes = await outcomes
  expect(codes).toContain('DEADLOCK')
  expect([a.signal.aborted, b.signal.aborted]).toEqual([false, false])
}, 30_000)

import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { AuditRecord } from '../../src/server/audit/audit-log.ts'
import { claimMark } from '../../src/server/audit/audit-log.ts'
import type { EvictRule, Request } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { dashboard } from '../../src/server/operators.ts'
import type { LeaseholdServer, ServeOptions, TokenOptions } from '../../src/server/index.ts'
import { get, post, postRequests } from '../support/called.ts'
import { claimOf } from '../support/claims.ts'
import { startServer } from '../support/started-server.ts'
import { folderForTest } from '../support/test-folder.ts'
import { tokenOf } from '../support/tokens.ts'

const tokens: readonly TokenOptions[] = [
  { name: 'worker', token: tokenOf('worker'), namespaces: ['billing'], rights: ['lock', 'read'] },
  { name: 'warden', token: tokenOf('warden'), namespaces: ['billing'], rights: ['lock', 'evict', 'read'] },
  { name: 'late', token: tokenOf('late'), namespaces: '*', rights: ['lock'], expires: '2020-01-01T00:00:00Z' },
]

const key = 'billing/named:invoice'

type Line = AuditRecord & { readonly at: string }

interface Audited {
  readonly server: LeaseholdServer
  readonly url: string
  readonly file: string
  /** The lines so far, once there are as many. */
  readonly lines: (count: number) => Promise<readonly Line[]>
}

function linesIn(file: string): readonly Line[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line)
}

async function start(options: Partial<ServeOptions> = {}): Promise<Audited> {
  const file = path.join(folderForTest('audit'), 'audit.jsonl')
  const server = await startServer({ tokens, driver: memory(), ...options, audit: { file, ...options.audit } })
  const lines = async (count: number): Promise<readonly Line[]> => {
    await expect.poll(() => linesIn(file).length, { timeout: 10_000 }).toBeGreaterThanOrEqual(count)
    return linesIn(file)
  }
  return { server, url: server.url, file, lines }
}

describe('the audit', () => {
  test('has a line for each change: who, from where, what, which key and fence, and the outcome', async () => {
    const { url, lines } = await start()
    const own = claimOf(key)
    const claimed = await postRequests(url, [{ op: 'claim', claim: own }], tokenOf('worker'))
    const [{ fence }] = (claimed.value as { statuses: [{ fence: number }] }).statuses
    await postRequests(url, [{ op: 'release', key, id: own.id }], tokenOf('worker'))
    const same = { by: 'worker', from: '127.0.0.1', key, claim: claimMark(own.id) }
    expect(await lines(2)).toEqual([
      { at: expect.stringMatching(/^\d{4}-.*Z$/), event: 'change', ...same, op: 'claim', fence, outcome: 'held' },
      { at: expect.any(String), event: 'change', ...same, op: 'release', outcome: 'released' },
    ])
  })

  test('has a line when a claim that waited is granted, with its fence', async () => {
    const { url, lines } = await start()
    const [first, second] = [claimOf(key), claimOf(key)]
    await postRequests(url, [{ op: 'claim', claim: first }], tokenOf('worker'))
    await postRequests(url, [{ op: 'claim', claim: second }], tokenOf('warden'))
    await postRequests(url, [{ op: 'release', key, id: first.id }], tokenOf('worker'))
    const renewal: Request = { op: 'renew', key, id: second.id, ttlMs: 60_000 }
    const held = await postRequests(url, [renewal], tokenOf('warden'))
    const [{ fence }] = (held.value as { statuses: [{ fence: number }] }).statuses
    const grants = (await lines(4)).filter(({ event }) => event === 'grant')
    expect(grants).toEqual([
      expect.objectContaining({ by: 'warden', key, claim: claimMark(second.id), fence, outcome: 'held' }),
    ])
    expect((await lines(4)).map(({ op, outcome }) => [op, outcome])).toContainEqual(['claim', 'waiting'])
  })

  test('leaves out plain renewals and what changed nothing, unless renewals are asked for', async () => {
    const own = claimOf(key)
    const renewal: Request = { op: 'renew', key, id: own.id, ttlMs: 60_000 }
    const refused: Request = { op: 'claim', claim: claimOf(key, { wait: false }) }
    const ops = async ({ server, url, file }: Audited): Promise<readonly unknown[]> => {
      await postRequests(url, [{ op: 'claim', claim: own }, renewal, refused], tokenOf('worker'))
      await postRequests(url, [{ ...renewal, fenceFloor: 1 }], tokenOf('worker'))
      await server.close()
      return linesIn(file).map(({ op, fenceFloor }) => (fenceFloor === undefined ? op : [op, fenceFloor]))
    }
    expect(await ops(await start())).toEqual(['claim', ['renew', 1]])
    const file = path.join(folderForTest('audit'), 'with-renewals')
    expect(await ops({ ...(await start({ audit: { file, renewals: true } })), file })).toEqual([
      'claim',
      'renew',
      ['renew', 1],
    ])
  })

  test.each<EvictRule>(['all', 'stale', 'same-runner', 'lower-priority'])(
    'has forced takes by the rule %s, carried out or refused',
    async (evict) => {
      const { url, lines } = await start()
      const held = await postRequests(url, [{ op: 'claim', claim: claimOf(key) }], tokenOf('worker'))
      const [{ fence }] = (held.value as { statuses: [{ fence: number }] }).statuses
      const taking: Request = { op: 'claim', claim: claimOf(key, { evict, staleMs: 0, priority: 1 }) }
      await postRequests(url, [taking], tokenOf('worker'))
      await postRequests(url, [taking], tokenOf('warden'))
      const [, refused, forced] = await lines(3)
      expect(refused).toMatchObject({ event: 'refused', by: 'worker', op: 'claim', rule: evict, key })
      expect(refused?.why).toContain("lacks the right 'evict'")
      expect(forced).toMatchObject({ event: 'forced', by: 'warden', op: 'claim', rule: evict, key })
      if (evict !== 'lower-priority') expect(forced).toMatchObject({ outcome: 'held', tookFence: fence })
    },
  )

  test('has evictions by clients and by the dashboard, each once', async () => {
    const { url, lines } = await start({ routes: dashboard() })
    const claim = async (): Promise<number> => {
      const { value } = await postRequests(url, [{ op: 'claim', claim: claimOf(key) }], tokenOf('worker'))
      return (value as { statuses: [{ fence: number }] }).statuses[0].fence
    }
    const first = await claim()
    await postRequests(url, [{ op: 'evict', key, fence: first, reason: 'stuck' }], tokenOf('warden'))
    const second = await claim()
    const body = JSON.stringify({ key, fence: second, reason: 'stuck again' })
    expect(await post(`${url}/v1/evictions`, body, tokenOf('warden'))).toMatchObject({ status: 200 })
    expect(await post(`${url}/v1/evictions`, body, tokenOf('worker'))).toMatchObject({ status: 403 })
    const written = (await lines(5)).filter(({ op, route }) => op === 'evict' || route === '/v1/evictions')
    expect(written).toEqual([
      expect.objectContaining({ event: 'forced', by: 'warden', fence: first, why: 'stuck', outcome: 'evicted' }),
      expect.objectContaining({ event: 'forced', by: 'warden', fence: second, why: 'stuck again', outcome: 'evicted' }),
      expect.objectContaining({ event: 'refused', by: 'worker', route: '/v1/evictions' }),
    ])
    const { value } = await get(`${url}/v1/audit`, tokenOf('warden'))
    expect((value as { evictions: readonly unknown[] }).evictions).toHaveLength(2)
  })

  test('has refusals and failed sign-ins, by name where the token is one of ours', async () => {
    const { url, lines } = await start()
    await get(`${url}/v1/store`)
    await get(`${url}/v1/store`, 'wrong-0123456789abcdef')
    await get(`${url}/v1/store`, tokenOf('late'))
    await postRequests(url, [{ op: 'claim', claim: claimOf('other/named:x') }], tokenOf('worker'))
    const [none, wrong, late, foreign] = await lines(4)
    const signIn = { event: 'sign-in-failed', from: '127.0.0.1', route: '/v1/store' }
    expect(none).toMatchObject({ ...signIn, why: expect.stringContaining('wants a token') })
    expect(wrong).toMatchObject({ ...signIn, why: expect.stringContaining('does not know') })
    expect(late).toMatchObject({ ...signIn, by: 'late', why: 'The token "late" has expired.' })
    expect(foreign).toMatchObject({ event: 'refused', by: 'worker', op: 'claim', key: 'other/named:x' })
  })

  test('counts refusals that repeat within a second instead of writing each', async () => {
    const { server, url, file } = await start()
    await Promise.all(Array.from({ length: 200 }, () => get(`${url}/v1/store`, 'wrong-0123456789abcdef')))
    await server.close()
    const written = linesIn(file)
    const total = written.reduce((sum, { count = 1 }) => sum + count, 0)
    expect(total).toBe(200)
    expect(written.length).toBeLessThan(100)
  })

  test('has what was refused because its token has as many claims as it may have', async () => {
    const { url, lines } = await start({ limits: { claimsPerTokenMax: 1 } })
    const two = [claimOf(key), claimOf('billing/named:other')]
    await postRequests(
      url,
      two.map((claim) => ({ op: 'claim', claim })),
      tokenOf('worker'),
    )
    await postRequests(url, [{ op: 'claim', claim: claimOf('billing/named:third') }], tokenOf('worker'))
    const why = expect.stringContaining('1 claims of this token')
    const refused = (await lines(3)).filter(({ event }) => event === 'refused')
    expect(refused).toMatchObject([
      { by: 'worker', op: 'claim', key: 'billing/named:other', why },
      { by: 'worker', op: 'claim', key: 'billing/named:third', why },
    ])
  })

  test('has a refusal of one token by its name and key, however many others another brings about', async () => {
    const { server, url, file } = await start()
    const claims = (namespace: string, count: number): Request[] =>
      Array.from({ length: count }, (_, index) => ({ op: 'claim', claim: claimOf(`${namespace}/named:${index}`) }))
    for (let calls = 0; calls < 6; calls += 1) {
      await postRequests(url, claims(`foreign${calls}`, 1000), tokenOf('worker'))
    }
    await postRequests(url, claims('other', 1), tokenOf('warden'))
    await server.close()
    const written = linesIn(file)
    expect(written.filter(({ by }) => by === 'warden')).toMatchObject([{ event: 'refused', key: 'other/named:0' }])
    const own = written.filter(({ by }) => by === 'worker')
    expect(own.reduce((sum, { count = 1 }) => sum + count, 0)).toBe(6000)
    expect(own.length).toBeLessThan(3000)
  })

  test('has no secret in it, and no control character, whatever a caller sends', async () => {
    const { url, file, lines } = await start()
    const own = claimOf(key)
    const nasty = 'billing/named:\u009b2J\u202e\u2028\u{e0001}\u007f'
    await postRequests(url, [{ op: 'claim', claim: own }], tokenOf('worker'))
    await postRequests(url, [{ op: 'claim', claim: claimOf(nasty) }], tokenOf('worker'))
    await get(`${url}/v1/store`, 'wrong-0123456789abcdef')
    const written = await lines(2)
    const text = readFileSync(file, 'utf8')
    expect(text).not.toContain(own.id)
    expect(text).not.toContain('secret-of')
    expect(text).not.toContain('wrong-0123')
    expect(text.replaceAll('\n', '')).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u)
    const shown = written.map((line) => line.key)
    // A server that refuses such keys writes none.
    expect(shown.every((each) => each === undefined || each === key || each === nasty)).toBe(true)
  })

  test('is readable by its owner alone, and appended to', async () => {
    const file = path.join(folderForTest('audit'), 'audit.jsonl')
    const once = async (): Promise<void> => {
      const server = await startServer({ tokens, audit: { file } })
      await get(`${server.url}/v1/store`)
      await server.close()
    }
    await once()
    await once()
    expect(linesIn(file)).toHaveLength(2)
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  test('goes on in a new file once the old one is moved and the server is told', async () => {
    const { server, url, file, lines } = await start()
    await get(`${url}/v1/store`)
    await lines(1)
    renameSync(file, `${file}.1`)
    await get(`${url}/v1/store`, 'wrong-0123456789abcdef')
    await server.reopenAudit()
    await get(`${url}/v1/store`, tokenOf('late'))
    expect(await lines(1)).toEqual([expect.objectContaining({ by: 'late' })])
    expect(linesIn(`${file}.1`)).toHaveLength(2)
  })

  test('goes on in the old file if there cannot be a new one', async () => {
    const folder = folderForTest('audit')
    const inside = path.join(folder, 'log')
    const { mkdirSync } = await import('node:fs')
    mkdirSync(inside)
    const file = path.join(inside, 'audit.jsonl')
    const { server, url } = await start({ audit: { file } })
    renameSync(inside, path.join(folder, 'moved'))
    await expect(server.reopenAudit()).rejects.toMatchObject({ code: 'INVALID' })
    await get(`${url}/v1/store`)
    const moved = path.join(folder, 'moved', 'audit.jsonl')
    await expect.poll(() => existsSync(moved) && linesIn(moved).length).toBe(1)
  })

  test('that cannot be opened keeps the server from starting', async () => {
    const file = path.join(folderForTest('audit'), 'file')
    writeFileSync(file, '')
    const starting = startServer({ tokens, audit: { file: path.join(file, 'audit') } })
    await expect(starting).rejects.toMatchObject({ code: 'INVALID', message: expect.stringContaining('audit') })
  })

  test('is counted in the metrics', async () => {
    const { url, lines } = await start()
    await get(`${url}/v1/store`)
    await lines(1)
    const { text } = await get(`${url}/metrics`, tokenOf('worker'))
    expect(text).toContain('leasehold_server_audit_lines_total 1')
    expect(text).toContain('leasehold_server_audit_dropped_total 0')
  })
})

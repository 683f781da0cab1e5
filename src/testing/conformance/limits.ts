import { expect } from '../vitest.ts'
import type { Claim, Request, ClaimStatus } from '../../core/contract/driver.ts'
import { durationMaxOf, fenceFloorMaxOf } from '../../core/contract/limits.ts'
import { requestBounds } from '../../core/contract/bounds.ts'
import type { Fact } from './fact.ts'
import type { Stage } from './stage.ts'

/** Values that are not whole numbers, or too large for any store. */
const noNumbers = [Number.NaN, Infinity, -Infinity, -1, 0.5, 2 ** 53 - 1, 2 ** 53]

/** A driver refuses every number and text outside its limits, and a refused request changes no other claim. */
export function limits(fact: Fact): void {
  fact('a renewal outside the limits of the store is refused and changes nothing', [], async (stage) => {
    const { ttlMinMs, ttlMaxMs } = stage.first.supports
    await stage.hold('one')
    const { key, id } = stage.draft('one')
    const [before] = await stage.listed()
    for (const ttlMs of [...noNumbers, 0, ttlMinMs - 1, ttlMaxMs + 1]) {
      expectRefused(await stage.ask('one', { op: 'renew', key, id, ttlMs }), `a ttl of ${ttlMs}`)
    }
    const [after] = await stage.listed()
    expect(after?.ttlMs).toBe(before?.ttlMs)
    await stage.standsHeld('one')
    expect(await stage.release('one')).toMatchObject({ state: 'absent', reason: 'released' })
    await stage.hold('two')
  })

  fact('a request outside the limits of the store fails alone', [], async (stage) => {
    await stage.hold('held')
    const bad = badRequests(stage)
    const requests = bad.map(({ request }) => request)
    // Valid requests between the bad ones, also first and last.
    const neighbours = [0, 30, 61, requests.length + 3].map((place, index) => {
      const claim = stage.draft(`neighbour ${index}`, { key: `stage/named:neighbour-${index}` })
      requests.splice(place, 0, { op: 'claim', claim })
      return claim.id
    })
    const statuses = await stage.driverOf('held').send(requests)
    expect(statuses).toHaveLength(requests.length)
    let place = 0
    for (const [index, request] of requests.entries()) {
      if (request.op === 'claim' && neighbours.includes(request.claim.id)) {
        expect(statuses[index], 'a neighbour').toMatchObject({ state: 'held' })
      } else {
        expectRefused(statuses[index], bad[place]?.name ?? '')
        place += 1
      }
    }
    await expectUnharmed(stage)
  })

  fact('the longest ttl works: it is listed, renewed and released', [], async (stage) => {
    const { ttlMinMs, ttlMaxMs } = stage.first.supports
    const claim: Claim = { ...stage.draft('one'), ttlMs: ttlMaxMs }
    const { key, id } = claim
    expect(await stage.ask('one', { op: 'claim', claim })).toMatchObject({ state: 'held' })
    expect((await stage.listed())[0]?.ttlMs).toBe(ttlMaxMs)
    expect(await stage.ask('one', { op: 'renew', key, id, ttlMs: ttlMaxMs })).toMatchObject({ state: 'held' })
    await stage.refused('two')
    expect(await stage.release('one')).toMatchObject({ state: 'absent', reason: 'released' })
    const shortest: Claim = { ...stage.draft('three'), ttlMs: ttlMinMs }
    expect(await stage.ask('three', { op: 'claim', claim: shortest })).toMatchObject({ state: 'held' })
  })

  fact('the largest numbers of a claim work: it is listed, renewed and released', [], async (stage) => {
    for (const [index, claim] of largestClaims(stage).entries()) {
      const { key, id, ttlMs } = claim
      const says = JSON.stringify(claim)
      expect((await stage.first.send([{ op: 'claim', claim }]))[0], says).toMatchObject({ state: 'held' })
      expect(await stage.listed(key), says).toHaveLength(1)
      expect((await stage.first.send([{ op: 'renew', key, id, ttlMs }]))[0], says).toMatchObject({ state: 'held' })
      const released = await stage.first.send([{ op: 'release', key, id }])
      expect(released[0], says).toMatchObject({ state: 'absent', reason: 'released' })
      await stage.hold(`after ${index}`, { key })
    }
  })

  fact('the largest numbers of a waiter work: it is listed and let in', ['queue'], async (stage) => {
    await stage.hold('holder')
    const [claim] = largestClaims(stage)
    const waiter = { ...(claim as Claim), key: stage.key, wait: true }
    expect((await stage.first.send([{ op: 'claim', claim: waiter }]))[0]).toMatchObject({ state: 'waiting' })
    expect(await stage.listed()).toHaveLength(2)
    await stage.release('holder')
    expect((await stage.first.send([{ op: 'claim', claim: waiter }]))[0]).toMatchObject({ state: 'held' })
  })

  fact('a page of any size has one key at least', [], async (stage) => {
    await stage.hold('one', { key: 'stage/named:one' })
    await stage.hold('two', { key: 'stage/named:two' })
    for (const limit of [...noNumbers, 0]) {
      const page = await stage.list({ prefix: 'stage/named:', limit })
      expect(page.keys.length, `a limit of ${limit}`).toBeGreaterThanOrEqual(1)
    }
  })

  fact('the highest fence floor leaves room for more', ['fence'], async (stage) => {
    await stage.hold('one')
    const most = fenceFloorMaxOf(stage.first.supports)
    expect(await stage.renew('one', 30, most)).toMatchObject({ state: 'held', fence: most })
    await stage.release('one')
    const { fence } = await stage.hold('two')
    expect(fence).toBeGreaterThan(most)
    expect(await stage.renew('two')).toMatchObject({ state: 'held', fence })
    await stage.release('two')
    expect((await stage.hold('three')).fence).toBeGreaterThan(fence)
  })
}

/** A request and what is out of limits in it. */
interface Bad {
  readonly name: string
  readonly request: Request
}

/** A request for every number and text, each a little or very much out of its limits. */
function badRequests(stage: Stage): Bad[] {
  const { supports } = stage.first
  const { key, id } = stage.draft('held')
  const changes: Partial<Record<keyof Claim, unknown>>[] = []
  const add = (field: keyof Claim, values: readonly unknown[]): void => {
    for (const value of values) changes.push({ [field]: value })
  }
  add('ttlMs', [...noNumbers, 0, supports.ttlMaxMs + 1])
  add('graceMs', [...noNumbers, durationMaxOf(supports) + 1])
  add('maxHoldMs', [...noNumbers, 0, durationMaxOf(supports) + 1])
  add('priority', [Number.NaN, Infinity, 0.5, -1001, 1001, 2 ** 53])
  for (const staleMs of [...noNumbers, durationMaxOf(supports) + 1]) changes.push({ evict: 'stale', staleMs })
  for (const limit of [...noNumbers, 0]) changes.push({ mode: 'shared', limit })
  for (const end of [...noNumbers, 0].filter((each) => each !== 2 ** 53 - 1)) changes.push({ range: { start: 0, end } })
  for (const start of [...noNumbers, 10]) changes.push({ range: { start, end: 10 } })
  add('id', ['', 'x'.repeat(requestBounds.idBytesMax + 1), 'a\0b', '\ud800'])
  add('key', ['x'.repeat(requestBounds.keyBytesMax + 1), 'a\0b', '\ud800'])
  const runner = stage.draft('held').runner
  const long = 'x'.repeat(requestBounds.ownerBytesMax + 1)
  for (const change of [
    { id: long },
    { host: 'a\0b' },
    { client: '\ud800' },
    { pid: 0.5 },
    { owner: long },
    { holds: [''] },
  ]) {
    changes.push({ runner: { ...runner, ...change } })
  }
  changes.push({ runner: { ...runner, metadata: { long: 'x'.repeat(requestBounds.metadataBytesMax) } } })
  const claims = changes.map((change, index): Bad => {
    const claim = { ...stage.draft(`bad ${index}`, { key: `stage/named:bad-${index}`, wait: false }), ...change }
    return { name: shown(change), request: { op: 'claim', claim: claim as Claim } }
  })
  const renewal = { op: 'renew', key, id, ttlMs: stage.ms(30) } as const
  const floors = [Number.NaN, Infinity, -1, 0.5, fenceFloorMaxOf(supports) + 1, 2 ** 53]
  return [
    ...claims,
    ...[...noNumbers, 0, supports.ttlMaxMs + 1].map((ttlMs): Bad => {
      return { name: `renew for ${ttlMs}`, request: { ...renewal, ttlMs } }
    }),
    ...floors.map((fenceFloor): Bad => ({ name: `floor ${fenceFloor}`, request: { ...renewal, fenceFloor } })),
    ...[Number.NaN, Infinity, -1, 0.5, 2 ** 53].map((fence): Bad => {
      return { name: `evict ${fence}`, request: { op: 'evict', key, fence, reason: 'a test' } }
    }),
    { name: 'a long reason', request: { op: 'evict', key, fence: 1, reason: long } },
    { name: 'release of no id', request: { op: 'release', key, id: '' } },
  ]
}

/** Claims that each ask for as much as the store takes. */
function largestClaims(stage: Stage): readonly Claim[] {
  const { supports } = stage.first
  const { ttlMaxMs, ttlAndGraceMaxMs = Infinity } = supports
  const longestMs = durationMaxOf(supports)
  const draft = (index: number): Claim =>
    stage.draft(`largest ${index}`, { key: `stage/named:largest-${index}`, wait: false })
  const graceMs = Math.min(longestMs, ttlAndGraceMaxMs - draft(0).ttlMs)
  const changes: Partial<Claim>[] = [
    {
      ...(ttlAndGraceMaxMs === Infinity && { ttlMs: ttlMaxMs }),
      ...(supports.grace && { graceMs }),
      ...(supports.maxHold && { maxHoldMs: longestMs }),
      ...(supports.priority && { priority: requestBounds.priority.most }),
      ...(supports.evict.includes('stale') && { evict: 'stale', staleMs: longestMs }),
    },
    ...(supports.priority ? [{ priority: requestBounds.priority.least }] : []),
    ...(supports.limit ? [{ mode: 'shared', limit: requestBounds.permits.most } as const] : []),
    ...(supports.range ? [{ range: { start: 2 ** 53 - 2, end: 2 ** 53 - 1 } }] : []),
  ]
  return changes.map((change, index) => ({ ...draft(index), ...change }))
}

/** The lock is as it was, and locks of any name work as before. */
async function expectUnharmed(stage: Stage): Promise<void> {
  await stage.standsHeld('held')
  const page = await stage.list({ prefix: 'stage/named:' })
  expect(page.keys.filter(({ key }) => key.startsWith('stage/named:bad-'))).toEqual([])
  expect(await stage.listed()).toHaveLength(1)
  await stage.refused('late')
  await stage.release('held')
  await stage.hold('next')
  await stage.hold('elsewhere', { key: 'stage/named:elsewhere' })
}

function expectRefused(status: ClaimStatus | undefined, name: string): void {
  expect(status, name).toMatchObject({
    state: 'unknown',
    error: { code: expect.stringMatching(/^INVALID$|^UNSUPPORTED$/) },
  })
}

/** JSON has no NaN and no Infinity. */
function shown(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => (typeof inner === 'number' ? String(inner) : inner))?.slice(0, 80)
}

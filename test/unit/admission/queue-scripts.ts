import * as fc from 'fast-check'
import type { Claim, EvictRule, Range, Request } from '../../../src/core/contract/driver.ts'
import { claimOf, Play, type Turn } from './play.ts'

/** A request about a claim, by number; or what happens to the store between requests. */
export type QueueEvent =
  | { readonly op: 'claim'; readonly id: number; readonly wish: Wish }
  | { readonly op: 'renew'; readonly id: number; readonly ttlMs: number; readonly fenceLift: number | undefined }
  | { readonly op: 'release' | 'withdraw' | 'evict'; readonly id: number }
  | { readonly op: 'die'; readonly id: number }
  | { readonly op: 'pass'; readonly ms: number }
  | { readonly op: 'back'; readonly ms: number }

type Wish = Pick<
  Claim,
  'mode' | 'limit' | 'range' | 'priority' | 'wait' | 'evict' | 'staleMs' | 'ttlMs' | 'graceMs' | 'maxHoldMs'
> & {
  readonly converts: boolean
  readonly runner: number
}

/** Many claims, so that queues get long. A claim that comes again is the same claim. */
const claimCount = 60

const rarely = <Value>(arbitrary: fc.Arbitrary<Value>): fc.Arbitrary<Value | undefined> =>
  fc.oneof({ weight: 12, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary })

const oneOf = <Value>(weights: readonly (readonly [number, fc.Arbitrary<Value>])[]): fc.Arbitrary<Value> =>
  fc.oneof(...weights.map(([weight, arbitrary]) => ({ weight, arbitrary })))

/** Disjoint ranges, some of them often, some that overlap several, and a long one. */
const range: fc.Arbitrary<Range> = oneOf<Range>([
  [6, fc.nat(11).map((place) => ({ start: place * 10, end: place * 10 + 5 }))],
  [3, fc.constantFrom({ start: 0, end: 5 }, { start: 20, end: 25 })],
  [
    2,
    fc.tuple(fc.nat(110), fc.integer({ min: 1, max: 30 })).map(([start, length]) => ({ start, end: start + length })),
  ],
  [1, fc.constant({ start: 0, end: 90 })],
])

const wish: fc.Arbitrary<Wish> = fc
  .record({
    mode: fc.constantFrom<Claim['mode']>('exclusive', 'exclusive', 'shared'),
    limit: fc.constantFrom(undefined, undefined, undefined, 1, 2, 3),
    range: oneOf<Range | undefined>([
      [11, range],
      [1, fc.constant(undefined)],
    ]),
    priority: fc.constantFrom(0, 0, 0, 0, 0, 3, -2),
    wait: fc.constantFrom(true, true, true, true, true, false),
    evict: rarely(fc.constantFrom<EvictRule>('lower-priority', 'stale', 'same-runner', 'all')),
    ttlMs: fc.constantFrom(400, 400, 300, 60, 15, 4),
    graceMs: fc.constantFrom(0, 0, 0, 0, 5, 20),
    maxHoldMs: rarely(fc.constantFrom(3, 30, 100)),
    converts: fc.constantFrom(false, false, false, false, false, false, true),
    runner: fc.nat(20),
  })
  .map(({ limit, ...rest }) => ({
    ...rest,
    limit: rest.mode === 'shared' ? limit : undefined,
    staleMs: rest.evict === 'stale' ? 20 : undefined,
  }))

const id = fc.nat(claimCount - 1)

export const queueEvent: fc.Arbitrary<QueueEvent> = oneOf<QueueEvent>(
  [
    [12, fc.record({ op: fc.constant('claim'), id, wish })],
    [
      4,
      fc.record({
        op: fc.constant('renew'),
        id,
        ttlMs: fc.constantFrom(400, 100, 9),
        fenceLift: rarely(fc.integer({ min: 1, max: 9 })),
      }),
    ],
    [5, fc.record({ op: fc.constant('release'), id })],
    [1, fc.record({ op: fc.constantFrom('withdraw', 'evict'), id })],
    [0.5, fc.record({ op: fc.constant('die'), id })],
    [2, fc.record({ op: fc.constant('pass'), ms: fc.constantFrom(1, 2, 5, 10, 30, 150) })],
    [0.3, fc.record({ op: fc.constant('back'), ms: fc.constantFrom(1, 50, 1000) })],
  ].map(([weight, arbitrary]) => [(weight as number) * 10, arbitrary as fc.Arbitrary<QueueEvent>] as const),
)

/** The same script on keys that find their waiters by the index from the first, or the third on, and on one that reads them all. */
export class ComparedKeys {
  requests = 0
  indexedRequests = 0
  readonly #reference = new Play(undefined, undefined, Infinity)
  readonly #indexed = [0, 2].map((few) => new Play(undefined, undefined, few))
  readonly #claims = new Map<string, Claim>()

  /** What came out otherwise; undefined: nothing. */
  play(happened: QueueEvent): string | undefined {
    const reference = this.#reference
    if (happened.op === 'pass') reference.now += happened.ms
    else if (happened.op === 'back') reference.now -= happened.ms
    else if (happened.op === 'die') reference.dead.add(`c${happened.id}`)
    else return this.#ask(this.#requestOf(happened))
    return undefined
  }

  #ask(request: Request): string | undefined {
    const reference = this.#reference
    // A process that renews or claims lives.
    if (request.op === 'renew') reference.dead.delete(request.id)
    if (request.op === 'claim') reference.dead.delete(request.claim.id)
    this.requests += 1
    const expected = JSON.stringify(outcome(reference.turn(request)))
    for (const indexed of this.#indexed) {
      indexed.now = reference.now
      indexed.dead.clear()
      for (const dead of reference.dead) indexed.dead.add(dead)
      if (indexed.state.waiterCrowd !== undefined) this.indexedRequests += 1
      const actual = JSON.stringify(outcome(indexed.turn(request)))
      if (actual !== expected) return `${JSON.stringify(request)}\nby the index ${actual}\nread whole ${expected}`
    }
    return undefined
  }

  #requestOf(asked: Exclude<QueueEvent, { op: 'die' } | { ms: number }>): Request {
    const claimId = `c${asked.id}`
    switch (asked.op) {
      case 'claim': {
        const claim = this.#claims.get(claimId) ?? this.#claimFor(claimId, asked.wish)
        this.#claims.set(claimId, claim)
        return { op: 'claim', claim }
      }
      case 'renew': {
        const { ttlMs, fenceLift } = asked
        const fenceFloor = fenceLift === undefined ? undefined : this.#reference.state.lastFence + fenceLift
        return { op: 'renew', key: 'key', id: claimId, ttlMs, ...(fenceFloor !== undefined && { fenceFloor }) }
      }
      case 'evict':
        return { op: 'evict', key: 'key', fence: this.#reference.state.find(claimId)?.fence ?? 0, reason: 'test' }
      case 'release':
      case 'withdraw':
        this.#claims.delete(claimId)
        return { op: asked.op, key: 'key', id: claimId }
    }
  }

  /** A conversion takes the place of a holder, if there is one. */
  #claimFor(claimId: string, { converts, runner, ...rest }: Wish): Claim {
    const holders = this.#reference.holding()
    const replaces = converts ? holders[runner % Math.max(1, holders.length)] : undefined
    return claimOf(claimId, {
      ...rest,
      runner: { id: `r${runner}`, incarnation: '1', host: 'host', pid: 1, client: 'client' },
      ...(replaces !== undefined && { replaces }),
    })
  }
}

/** What a request did. Changes and notifications are in no order. */
function outcome({ decision, after }: Turn): unknown {
  return {
    status: decision.status,
    changes: decision.changes.map((change) => JSON.stringify(change)).toSorted(),
    notifications: decision.notifications.map((notification) => JSON.stringify(notification)).toSorted(),
    lastFence: decision.lastFence,
    ended: decision.ended,
    holding: after.holders.map(({ claim, fence, expiresAt }) => `${claim.id} ${fence} ${expiresAt}`).toSorted(),
    waiting: after.waiters.map(({ claim, expiresAt }) => `${claim.id} ${expiresAt}`),
  }
}

import { expect } from 'vitest'
import type { Claim, ClaimStatus, EvictRule, LockDriver, Request } from '../../src/core/contract/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { Model } from '../../src/testing/model/model.ts'
import { seededRandom } from '../../src/testing/random.ts'
import { claimOf } from './claims.ts'

type Choice = readonly [number, ...number[]]

/** What random requests on one key are like. Shares are between 0 and 1. */
export interface RequestMix {
  /** How many ids there are to choose from. */
  readonly ids: number
  /** One of these, for each script, is the share of claims on ranges. */
  readonly ranged: Choice
  readonly exclusive: number
  readonly waiting: number
  readonly claims: number
  /** Ranges begin below one of these, and are at most one of those long. */
  readonly starts: Choice
  readonly lengths: Choice
  readonly ttlsMs: Choice
}

/** A Redis, and what happens to it meanwhile. */
export interface Stage {
  readonly url: string
  /** Called before each request, with how many claims hold and wait, and a random number from 0 to 1. */
  readonly disturb?: (held: number, waiting: number, chance: number) => Promise<void>
  /** Called if an outcome is unknown. The request is sent once more then. */
  readonly calm?: () => Promise<void>
  /** More claims than this are a crowd. */
  readonly many: number
}

/**
 * Plays random requests on the key `file` of a Redis and on the model, and compares answers and lists. Returns after how many
 * requests a crowd held, and after how many a crowd waited.
 */
export async function playRandomRequests(
  seed: number,
  steps: number,
  mix: RequestMix,
  { url, disturb, calm, many }: Stage,
): Promise<{ readonly crowdsOfHolders: number; readonly crowdsOfWaiters: number }> {
  const random = seededRandom(seed)
  const below = (limit: number): number => Math.floor(random() * limit)
  const pick = <Value>(...values: readonly [Value, ...Value[]]): Value => values[below(values.length)] ?? values[0]
  const began = Date.now()
  const model = new Model()
  const driver: LockDriver = redis({ url, clockForTests: () => began + model.now })
  await driver.open()
  const ranged = pick(...mix.ranged)
  const range = (): Claim['range'] => {
    const start = below(pick(...mix.starts))
    return random() < ranged ? { start, end: start + 1 + below(pick(...mix.lengths)) } : undefined
  }
  const held = new Map<string, number>()
  let [waiting, crowdsOfHolders, crowdsOfWaiters] = [0, 0, 0]
  const script: string[] = []
  try {
    for (let step = 0; step < steps; step += 1) {
      const id = `claim-${below(mix.ids)}`
      const ttlMs = pick(...mix.ttlsMs)
      const mode = random() < mix.exclusive ? 'exclusive' : 'shared'
      const evict = random() < 0.05 ? pick<EvictRule>('all', 'stale', 'same-runner', 'lower-priority') : undefined
      const wish = claimOf('file', {
        id,
        mode,
        limit: mode === 'shared' && random() < 0.2 ? pick(3, 8) : undefined,
        range: range(),
        replaces: random() < 0.1 ? `claim-${below(mix.ids)}` : undefined,
        priority: pick(0, 0, 3),
        wait: random() < mix.waiting,
        evict,
        staleMs: evict === 'stale' ? 3000 : undefined,
        ttlMs,
        graceMs: pick(0, 0, 2000),
        maxHoldMs: random() < 0.1 ? 8000 : undefined,
        runner: { ...claimOf('file').runner, id: `runner-${below(5)}` },
      })
      const fence = held.get(id)
      const evicts: Request | undefined =
        fence === undefined ? undefined : { op: 'evict', key: 'file', fence, reason: 'told' }
      const request: Request =
        random() < mix.claims
          ? { op: 'claim', claim: wish }
          : pick<Request>(
              { op: 'renew', key: 'file', id, ttlMs },
              { op: 'renew', key: 'file', id, ttlMs },
              { op: 'release', key: 'file', id },
              { op: 'withdraw', key: 'file', id },
              evicts ?? { op: 'release', key: 'file', id },
            )
      if (random() < 0.3) model.now = Math.max(0, model.now + pick(100, 1000, 4000, -3000))
      script.push(`${model.now} ${JSON.stringify(request)}`)
      await disturb?.(held.size, waiting, random())
      let [answer] = await driver.send([request])
      if (answer?.state === 'unknown' && calm !== undefined) {
        await calm()
        ;[answer] = await driver.send([request])
      }
      const claims = (await driver.list({ key: 'file' })).keys[0]?.claims ?? []
      const inModel = request.op === 'evict' ? { ...request, fence: modelFence(model, id) } : request
      const expected = shownStatus(model.send(inModel))
      expect(answer && shownStatus(answer), script.join('\n')).toEqual(expected)
      held.clear()
      for (const each of claims) if (each.state === 'held') held.set(each.id, each.fence)
      waiting = claims.length - held.size
      if (held.size > many) crowdsOfHolders += 1
      if (waiting > many) crowdsOfWaiters += 1
      // A listing may still show claims whose time is over.
      const living = byId(model.list('file').map((each) => ({ ...each, fence: 0 })))
      const listed = claims.filter(({ id: listedId }) => living.some((each) => each.id === listedId))
      const shown = byId(listed.map((each) => ({ ...each, fence: 0, ...times(each, began) })))
      expect(shown, script.join('\n')).toEqual(living)
    }
  } finally {
    await driver.close()
  }
  return { crowdsOfHolders, crowdsOfWaiters }
}

function byId<Item extends { readonly id: string }>(items: readonly Item[]): readonly Item[] {
  return items.toSorted((left, right) => (left.id < right.id ? -1 : 1))
}

function modelFence(model: Model, id: string): number {
  return model.list('file').find((each) => each.id === id)?.fence ?? -1
}

function times(
  each: {
    readonly enteredAt: number
    readonly acquiredAt: number
    readonly lastHeartbeat: number
    readonly expiresAt: number
  },
  began: number,
): Record<string, number> {
  const { enteredAt, acquiredAt, lastHeartbeat, expiresAt } = each
  return {
    enteredAt: enteredAt - began,
    acquiredAt: acquiredAt === 0 ? 0 : acquiredAt - began,
    lastHeartbeat: lastHeartbeat - began,
    expiresAt: expiresAt - began,
  }
}

/** A status without fences: those of the model begin at one. */
function shownStatus(status: ClaimStatus): unknown {
  if (status.state === 'unknown') return { unknown: String(status.error) }
  if (status.state !== 'held') return status
  return { ...status, fence: 0, after: status.after && { ...status.after, fence: 0 } }
}

/** Traces of real stores, and whether `spec/Trace.tla` allows them. */
import { seededRandom } from '../../src/testing/random.ts'
import type { Claim, ClaimStatus, LockDriver, Request } from '../../src/core/contract/driver.ts'
import { ask, claimOf } from '../support/claims.ts'
import { check } from './checker.ts'
import type { Wish } from './scenes.ts'

/** One step of a trace: a request with its answer, or ticks that pass. */
export interface TraceStep {
  readonly op: 'claim' | 'renew' | 'release' | 'withdraw' | 'tick'
  readonly claim: string
  /** How many ticks pass, or the ttl of a renewal. */
  readonly ticks: number
  readonly state: 'held' | 'waiting' | 'absent'
  /** What is left of the lease. */
  readonly left: number
  readonly fence: number
}

/** What happened to one key. */
export interface Trace {
  readonly wishes: Readonly<Record<string, Wish>>
  readonly steps: readonly TraceStep[]
}

/** A store, and a clock that only the recorder moves. */
export interface RecordedStore {
  readonly driver: LockDriver
  readonly advance: (ms: number) => Promise<void>
}

const tickMs = 1000
/** Late and repeated requests come from choosing among a few ids. */
const wishMax = 5

/** Sends random requests about one key of a store, a fresh one for each seed, and records what comes back. */
export async function recordTrace({ driver, advance }: RecordedStore, seed: number, stepMax: number): Promise<Trace> {
  const random = seededRandom(seed)
  const below = (limit: number): number => Math.floor(random() * limit)
  const pick = <Item>(...items: readonly [Item, ...Item[]]): Item => items[below(items.length)] ?? items[0]
  const wishes: Record<string, Wish> = {}
  for (let number = 0; number < wishMax; number += 1) {
    const mode = pick<Wish['mode']>('exclusive', 'shared')
    const limit = mode === 'shared' ? pick(0, 2, 2) : 0
    const wait = random() < 0.8
    wishes[`c${number}`] = { mode, limit, ttl: 1 + below(5), grace: pick(0, 0, 2), priority: pick(0, 0, 2), wait }
  }
  const steps: TraceStep[] = []
  while (steps.length < stepMax) {
    const id = `c${below(wishMax)}`
    const wish = wishes[id]
    if (wish === undefined) throw new Error(`There is no ${id}.`)
    const op = pick<TraceStep['op']>('claim', 'claim', 'claim', 'renew', 'release', 'withdraw', 'tick', 'tick')
    const ticks = 1 + below(op === 'tick' ? 3 : 5)
    if (op === 'tick') {
      await advance(ticks * tickMs)
      steps.push({ op, claim: id, ticks, state: 'absent', left: 0, fence: 0 })
    } else {
      const status = await ask(driver, requestOf(op, claimFor(`trace-${seed}`, id, wish), ticks))
      steps.push({ op, claim: id, ticks, ...answerOf(status, tickMs) })
    }
  }
  return { wishes, steps: ranked(steps) }
}

function claimFor(key: string, id: string, { mode, limit, ttl, grace, priority, wait }: Wish): Claim {
  const times = { ttlMs: ttl * tickMs, graceMs: grace * tickMs }
  return claimOf(key, { id: `${key}-${id}`, mode, limit: limit === 0 ? undefined : limit, priority, wait, ...times })
}

function requestOf(op: Exclude<TraceStep['op'], 'tick'>, claim: Claim, ticks: number): Request {
  const { key, id } = claim
  if (op === 'claim') return { op, claim }
  return op === 'renew' ? { op, key, id, ttlMs: ticks * tickMs } : { op, key, id }
}

/** A status as a trace has it. */
export function answerOf(status: ClaimStatus, msPerTick: number): Pick<TraceStep, 'state' | 'left' | 'fence'> {
  if (status.state === 'unknown') throw new Error('The store did not answer.', { cause: status.error })
  if (status.state === 'absent') return { state: 'absent', left: 0, fence: 0 }
  return { state: status.state, left: status.ttlMs / msPerTick, fence: status.state === 'held' ? status.fence : 0 }
}

/** The steps with the rank of each fence in its place: the specification's numbers are small. */
export function ranked(steps: readonly TraceStep[]): readonly TraceStep[] {
  const fences = [...new Set(steps.map(({ fence }) => fence))].filter((fence) => fence > 0).toSorted((a, b) => a - b)
  return steps.map((step) => ({ ...step, fence: fences.indexOf(step.fence) + 1 }))
}

/** The number of the first step that the specification refuses, from 1 on; undefined if it allows the whole trace. */
export function refusedStep({ wishes, steps }: Trace): number | undefined {
  const Trace = steps.map((step) => ({ ...step }))
  const constants = { Claims: new Set(Object.keys(wishes)), Wishes: { ...wishes }, BeginMax: 0, Trace }
  const verdict = check({ module: 'Trace', constants, invariants: ['Exclusion'], mustGoOn: true })
  return verdict.outcome === 'kept' ? undefined : verdict.steps.length
}

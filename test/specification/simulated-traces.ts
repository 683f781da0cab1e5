/** Traces of a store under clients of the simulator: what arrives over a network that loses, delays and repeats. */
import type { Claim, ClaimStatus, Request } from '../../src/core/contract/driver.ts'
import { claimIdOf, keyOf } from '../../src/core/contract/requests.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { overNetwork, simulate } from '../../src/testing/index.ts'
import { around } from '../support/around.ts'
import { answerOf, ranked, type Trace, type TraceStep } from './traces.ts'
import type { Wish } from './scenes.ts'

/** What a trace has a word for. */
const recorded = new Set<Request['op']>(['claim', 'renew', 'release', 'withdraw'])

/** What one store did to one key. A tick is a millisecond. */
class KeyRecord {
  readonly #wishes: Record<string, Wish> = {}
  readonly #names = new Map<string, string>()
  readonly #steps: TraceStep[] = []
  #now: number | undefined
  /** False: something happened to the key that the specification does not know. */
  isSpecified = true

  get trace(): Trace {
    return { wishes: this.#wishes, steps: ranked(this.#steps) }
  }

  add(request: Request, status: ClaimStatus, now: number): void {
    const claim = this.#nameOf(request)
    if (claim === undefined || !recorded.has(request.op)) this.isSpecified = false
    if (claim === undefined || !this.isSpecified || request.op === 'evict') return
    const passed = now - (this.#now ?? now)
    this.#now = now
    if (passed > 0) this.#steps.push({ op: 'tick', claim, ticks: passed, state: 'absent', left: 0, fence: 0 })
    const ticks = request.op === 'renew' ? request.ttlMs : 1
    this.#steps.push({ op: request.op, claim, ticks, ...answerOf(status, 1) })
  }

  /** The short name of the claim that a request is about, which is known from now on. */
  #nameOf(request: Request): string | undefined {
    const id = claimIdOf(request)
    if (id === undefined) return undefined
    const name = this.#names.get(id) ?? `c${this.#names.size}`
    const wish = request.op === 'claim' ? wishOf(request.claim) : this.#wishes[name]
    // A claim whose request never arrived is released all the same: it asked for nothing.
    if (wish === undefined && request.op === 'claim') return undefined
    this.#names.set(id, name)
    this.#wishes[name] = wish ?? { mode: 'exclusive', limit: 0, ttl: 1, grace: 0, priority: 0, wait: true }
    return name
  }
}

/** Undefined: the specification has no such claims. */
function wishOf(claim: Claim): Wish | undefined {
  const { mode, limit = 0, ttlMs, graceMs, priority, wait, range, replaces, evict, maxHoldMs, detached } = claim
  const others = [range, replaces, evict, maxHoldMs, detached]
  return others.every((each) => each === undefined)
    ? { mode, limit, ttl: ttlMs, grace: graceMs, priority, wait }
    : undefined
}

/** The traces of a short simulation: one for each key whose claims the specification knows. */
export async function simulatedTraces(seed: number): Promise<readonly Trace[]> {
  const records = new Map<string, KeyRecord>()
  await simulate({
    seed,
    processes: 2,
    workers: 2,
    ms: 3000,
    store: (clock) => {
      const store = memory({ clock })
      const send = async (requests: readonly Request[]): Promise<readonly ClaimStatus[]> => {
        const now = Math.floor(clock.now())
        const statuses = await store.send(requests)
        for (const [index, request] of requests.entries()) {
          const status = statuses[index]
          const record = records.get(keyOf(request)) ?? new KeyRecord()
          records.set(keyOf(request), record)
          if (status !== undefined) record.add(request, status, now)
        }
        return statuses
      }
      return {
        driver: (line) => overNetwork(line, around(store, { send })),
        list: (query) => store.list(query),
      }
    },
  })
  return [...records.values()].filter(({ isSpecified }) => isSpecified).map(({ trace }) => trace)
}

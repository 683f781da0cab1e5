import type { Claim, Request, ClaimStatus } from '../../core/contract/driver.ts'
import { claimStatusOf, type Holding, type Holdings } from './holdings.ts'
import type { SessionStep, StepKind } from './session.ts'
import { LeaseholdError } from '../../core/errors.ts'

/** For whom a step is taken: a claim that wants the lock, or a holding that is given back. */
interface Purpose {
  readonly claim?: Claim
  readonly holding?: Holding
  /** The place of the request that wants it; undefined: nobody asked, its time is over. */
  readonly place: number | undefined
}

type Renewal = Extract<Request, { op: 'renew' }>

/** One round trip to the session: the steps that requests need of it, each key at most once, and what comes of them. */
export class StepPlan {
  readonly steps: SessionStep[] = []
  /** In the order of the steps. */
  readonly #purposes: Purpose[] = []
  /** For these a sign of life from the session is enough. */
  readonly #renewals: { readonly holding: Holding; readonly request: Renewal; readonly place: number }[] = []
  readonly #undecided = new Set<string>()
  readonly #holdings: Holdings

  constructor(holdings: Holdings) {
    this.#holdings = holdings
  }

  get isEmpty(): boolean {
    return this.steps.length === 0 && this.#renewals.length === 0
  }

  /** Whether what becomes of the key hangs on this round trip. */
  isUndecided(hash: string): boolean {
    return this.#undecided.has(hash)
  }

  /** How a request stands, if that is known without asking; otherwise undefined, and {@link settle} will tell. */
  add(request: Request, hash: string, place: number): ClaimStatus | undefined {
    if (request.op === 'claim') return this.#claim(request.claim, hash, place)
    const holding = request.op === 'evict' ? undefined : this.#holdings.find(request.key, request.id)
    if (holding === undefined) return unknown
    if (request.op === 'release') return this.giveBack(holding, place)
    // Nobody waits here: it is held, and stays so.
    if (request.op === 'withdraw') return claimStatusOf(holding, performance.now())
    if (request.op === 'renew') {
      this.#renewals.push({ holding, request, place })
      this.#undecided.add(hash)
    }
    return undefined
  }

  giveBack(holding: Holding, place: number | undefined): ClaimStatus | undefined {
    if (this.#holdings.of(holding.hash).length > 1) {
      // Others of this process share it still.
      this.#holdings.remove(holding)
      return released
    }
    const kind = holding.claim.mode === 'shared' ? 'unlock shared' : 'unlock'
    return this.#step(kind, holding.hash, { holding, place })
  }

  /** The steps have been carried out: for a try the result is its fence, or 0. */
  settle(results: readonly number[], statuses: (ClaimStatus | undefined)[]): void {
    const now = performance.now()
    for (const [index, { claim, holding, place }] of this.#purposes.entries()) {
      const fence = results[index] ?? 0
      let status = released
      if (holding !== undefined) this.#holdings.remove(holding)
      else if (claim === undefined || fence === 0) status = refused
      else status = claimStatusOf(this.#holdings.add(claim, this.steps[index]?.hash ?? '', fence, now), now)
      if (place !== undefined) statuses[place] = status
    }
    for (const { holding, request, place } of this.#renewals) {
      this.#holdings.renew(holding, request, now)
      statuses[place] = claimStatusOf(holding, now)
    }
  }

  /** The steps were refused and undone: what was to be given back is, and nobody may share it any more. */
  forgetGivenBack(): void {
    for (const { holding } of this.#purposes) if (holding !== undefined) this.#holdings.remove(holding)
  }

  #claim(claim: Claim, hash: string, place: number): ClaimStatus | undefined {
    const known = this.#holdings.find(claim.key, claim.id)
    if (known !== undefined) return claimStatusOf(known, performance.now())
    const here = this.#holdings.of(hash)
    const stranger = here.find((holding) => holding.claim.key !== claim.key)
    if (stranger !== undefined) return collision(claim, stranger.claim.key)
    const shared = claim.mode === 'shared'
    if (here.some((holding) => !shared || holding.claim.mode === 'exclusive')) return refused
    // The session has a lock once, however many of its claims share it.
    return this.#step(here.length > 0 ? 'draw' : shared ? 'lock shared' : 'lock', hash, { claim, place })
  }

  #step(kind: StepKind, hash: string, purpose: Purpose): undefined {
    this.steps.push({ kind, hash })
    this.#purposes.push(purpose)
    this.#undecided.add(hash)
    return undefined
  }
}

export const released: ClaimStatus = { state: 'absent', reason: 'released' }
export const refused: ClaimStatus = { state: 'absent', reason: 'refused' }
export const unknown: ClaimStatus = { state: 'absent', reason: 'unknown' }
export const connectionLost: ClaimStatus = {
  state: 'absent',
  reason: 'evicted',
  detail: 'the connection to the database was lost',
}

/** Two names with one 64-bit key: told, and not granted. */
export function collision(claim: Claim, other: string): ClaimStatus {
  const what = `${JSON.stringify(claim.key)} and ${JSON.stringify(other)} have the same 64-bit key.`
  const error = new LeaseholdError('INVALID', `${what} Rename one of them, or use leasehold/postgres.`, {
    key: claim.key,
  })
  return { state: 'unknown', error }
}

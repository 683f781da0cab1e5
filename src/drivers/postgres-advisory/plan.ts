import type { Claim, Request, ClaimStatus } from '../../core/contract/driver.ts'
import { claimStatusOf, type Holding, type Holdings } from './holdings.ts'
import type { SessionStep, StepKind } from './session.ts'
import { LeaseholdError } from '../../core/errors.ts'

/** What a step is taken for: a claim that wants the lock, or a holding that is given back. */
interface Purpose {
  readonly claim?: Claim
  readonly holding?: Holding
  /** The place of the request; undefined: there is none, the lease has ended. */
  readonly place: number | undefined
}

type Renewal = Extract<Request, { op: 'renew' }>

/** One round trip to the session: the steps that requests need, at most one a key, and the statuses that follow from them. */
export class StepPlan {
  readonly steps: SessionStep[] = []
  /** In the order of the steps. */
  readonly #purposes: Purpose[] = []
  /** Renewals, which need no step: that the session answers is enough. */
  readonly #renewals: { readonly holding: Holding; readonly request: Renewal; readonly place: number }[] = []
  readonly #undecided = new Set<string>()
  readonly #holdings: Holdings

  constructor(holdings: Holdings) {
    this.#holdings = holdings
  }

  get isEmpty(): boolean {
    return this.steps.length === 0 && this.#renewals.length === 0
  }

  /** Whether the state of the key depends on this round trip. */
  isUndecided(hash: string): boolean {
    return this.#undecided.has(hash)
  }

  /** The status of a request, if it is known without the server; undefined: {@link settle} will fill it in. */
  add(request: Request, hash: string, place: number): ClaimStatus | undefined {
    if (request.op === 'claim') return this.#claim(request.claim, hash, place)
    const holding = request.op === 'evict' ? undefined : this.#holdings.find(request.key, request.id)
    if (holding === undefined) return unheldClaim
    if (request.op === 'release') return this.giveBack(holding, place)
    // No claim waits in this store: this one is held, and stays so.
    if (request.op === 'withdraw') return claimStatusOf(holding, performance.now())
    if (request.op === 'renew') {
      this.#renewals.push({ holding, request, place })
      this.#undecided.add(hash)
    }
    return undefined
  }

  giveBack(holding: Holding, place: number | undefined): ClaimStatus | undefined {
    if (this.#holdings.of(holding.hash).length > 1) {
      // Other claims of this process share the lock still.
      this.#holdings.remove(holding)
      return released
    }
    const kind = holding.claim.mode === 'shared' ? 'unlock shared' : 'unlock'
    return this.#step(kind, holding.hash, { holding, place })
  }

  /** The steps were carried out. The result of a try is its fence, or 0. */
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

  /** The steps were refused and undone. What was to be given back is given back, and no claim may share it any more. */
  forgetGivenBack(): void {
    for (const { holding } of this.#purposes) if (holding !== undefined) this.#holdings.remove(holding)
  }

  #claim(claim: Claim, hash: string, place: number): ClaimStatus | undefined {
    const known = this.#holdings.find(claim.key, claim.id)
    if (known !== undefined) return claimStatusOf(known, performance.now())
    const holdings = this.#holdings.of(hash)
    const namesake = holdings.find((holding) => holding.claim.key !== claim.key)
    if (namesake !== undefined) return collision(claim, namesake.claim.key)
    const shared = claim.mode === 'shared'
    if (holdings.some((holding) => !shared || holding.claim.mode === 'exclusive')) return refused
    // The session takes a lock once, however many of its claims share it.
    return this.#step(holdings.length > 0 ? 'draw' : shared ? 'lock shared' : 'lock', hash, { claim, place })
  }

  #step(kind: StepKind, hash: string, purpose: Purpose): undefined {
    this.steps.push({ kind, hash })
    this.#purposes.push(purpose)
    this.#undecided.add(hash)
    return undefined
  }
}

const released: ClaimStatus = { state: 'absent', reason: 'released' }
const refused: ClaimStatus = { state: 'absent', reason: 'refused' }
/** The store knows nothing of this claim. */
export const unheldClaim: ClaimStatus = { state: 'absent', reason: 'unknown' }
/** The claim ended with its session. */
export const connectionLost: ClaimStatus = {
  state: 'absent',
  reason: 'evicted',
  detail: 'the connection to the database was lost',
}

/** The answer to a claim whose 64-bit key is that of another name: an error, and never a grant. */
export function collision(claim: Claim, namesake: string): ClaimStatus {
  const what = `${JSON.stringify(claim.key)} and ${JSON.stringify(namesake)} have the same 64-bit key.`
  const error = new LeaseholdError('INVALID', `${what} Rename one of them, or use leasehold/postgres.`, {
    key: claim.key,
  })
  return { state: 'unknown', error }
}

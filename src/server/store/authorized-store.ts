import type { ClaimStatus, KeyPage, ListQuery, Request, Runner, Supports } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { Environment } from '../../core/time/environment.ts'
import type { ClaimAudit } from '../audit/claim-audit.ts'
import { aheadMs, lackFor } from '../auth/rights.ts'
import type { Caller, Principal } from '../contract/call.ts'
import { HttpError, notAllowed } from '../contract/http-error.ts'
import type { ClaimQuotas } from './claim-quotas.ts'
import { unsupportedIn } from './store-description.ts'
import { StoreTurns, type StoreWork } from './store-turns.ts'
import type { SeenEviction, SendForOptions, StoreAccess, StoreFacade } from './store-facade.ts'

/** What it works with. @internal */
export interface AuthorizedStoreParts {
  readonly store: StoreFacade
  /** Undefined: nothing is recorded. */
  readonly audit: ClaimAudit | undefined
  readonly quotas: ClaimQuotas
  /** Writes the name of the token into the metadata of claims. */
  readonly marksClaims: boolean
  readonly environment: Pick<Environment, 'wall' | 'timer'>
}

/**
 * The store as callers may use it. The one place where a request is authorized and recorded: every route that sends requests on
 * behalf of a caller sends them here. @internal
 */
export class AuthorizedStore implements StoreAccess {
  readonly #store: StoreFacade
  readonly #audit: ClaimAudit | undefined
  readonly #quotas: ClaimQuotas
  readonly #marksClaims: boolean
  readonly #environment: Pick<Environment, 'wall' | 'timer'>

  constructor({ store, audit, quotas, marksClaims, environment }: AuthorizedStoreParts) {
    this.#store = store
    this.#audit = audit
    this.#quotas = quotas
    this.#marksClaims = marksClaims
    this.#environment = environment
  }

  /** How many calls of each token wait for the clock. */
  readonly #clockWaits = new Map<string, number>()
  readonly #turns = new StoreTurns()

  get name(): string {
    return this.#store.name
  }

  get supports(): Supports {
    return this.#store.supports
  }

  list(query: ListQuery): Promise<KeyPage> {
    return this.#store.list(query)
  }

  listFor(caller: Caller, query: ListQuery): Promise<KeyPage> {
    return this.#inTurn(caller, { work: 'pages', size: 1 }, () => this.#store.list(query))
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return this.#store.send(requests)
  }

  onEviction(listener: (eviction: SeenEviction) => void): void {
    this.#store.onEviction(listener)
  }

  onClose(listener: () => void): void {
    this.#store.onClose(listener)
  }

  /**
   * Carries out what the caller may ask for and the store can do. The rest is answered unknown, so that what others of the same call
   * ask for does not suffer; if nothing is left, this rejects with what the first one lacks. The runners of claims are marked with the
   * token's name: they belong to the call.
   */
  async sendFor(
    caller: Caller,
    requests: readonly Request[],
    { session, evictionsAreShown = false }: SendForOptions = {},
  ): Promise<readonly ClaimStatus[]> {
    const { principal } = caller
    const { supports } = this.#store
    const unsupported = requests.map((request, index) => unsupportedIn(request, index, supports))
    if (unsupported[0] !== undefined && !unsupported.includes(undefined)) throw unsupported[0]
    const wallMs = this.#environment.wall()
    const unallowed = requests.map((request) => lackFor(request, principal, wallMs))
    if (this.#audit !== undefined) {
      for (const [index, lack] of unallowed.entries()) {
        if (lack !== undefined) this.#audit.refused(caller, requests[index] as Request, lack)
      }
    }
    if (unallowed[0] !== undefined && !unallowed.includes(undefined)) throw new RequestsRefused(unallowed[0])
    await this.#clockReaches(
      requests.filter((_, index) => unallowed[index] === undefined && unsupported[index] === undefined),
      caller,
    )
    const work = requests.some(({ op }) => op === 'claim') ? 'claims' : 'others'
    return this.#inTurn(caller, { work, size: requests.length }, () =>
      this.#carryOut(caller, requests, {
        lacks: requests.map((_, index) => unallowed[index] ?? unsupported[index]),
        session,
        evictionsAreShown,
      }),
    )
  }

  /** Carries out work with the store when it is its token's turn, unless the caller has gone or may do it no more by then. */
  async #inTurn<Result>(
    caller: Caller,
    { work, size }: { readonly work: StoreWork; readonly size: number },
    carryOut: () => Promise<Result>,
  ): Promise<Result> {
    // Without tokens all callers are one.
    if (!this.#marksClaims) return carryOut()
    const { name } = caller.principal
    const turn = this.#turns.enter(name, work, size)
    try {
      if (turn !== undefined) {
        await turn
        caller.signal?.throwIfAborted()
      }
      return await carryOut()
    } finally {
      this.#turns.leave(name, work, size)
    }
  }

  /** Carries out what nothing is lacking for, and answers the rest with what it lacks. */
  async #carryOut(
    caller: Caller,
    requests: readonly Request[],
    { lacks: lacking, session, evictionsAreShown }: CarryOutOptions,
  ): Promise<readonly ClaimStatus[]> {
    const { principal } = caller
    // Nothing is counted before all that can be refused for its own sake has been, and what is counted is sent in the same turn.
    const token = this.#marksClaims ? principal.name : undefined
    const lacks = requests.map((request, index) => lacking[index] ?? this.#excess(caller, request, token))
    if (lacks[0] !== undefined && !lacks.includes(undefined)) throw refusalFor(lacks[0])
    const isWhole = lacks.every((lack) => lack === undefined)
    const allowed = isWhole ? requests : requests.filter((_, index) => lacks[index] === undefined)
    if (this.#marksClaims) for (const request of allowed) markVia(request, principal)
    const statuses = await this.#store.send(allowed, session)
    let index = 0
    for (const request of allowed) {
      const status = statuses[index] as ClaimStatus
      index += 1
      this.#quotas.answered(request, status)
      this.#audit?.answered(caller, request, status)
      if (request.op === 'evict' && !evictionsAreShown) this.#store.evictionAsked({ principal, request, status })
    }
    if (isWhole) return statuses
    let next = 0
    return lacks.map((lack) =>
      lack === undefined ? (statuses[next++] as ClaimStatus) : { state: 'unknown', error: lack },
    )
  }

  /** Counts a request. Gives the limit that it would go beyond, if it would, and records that. */
  #excess(caller: Caller, request: Request, token: string | undefined): LeaseholdError | undefined {
    const excess = this.#quotas.admit(request, token)
    if (excess !== undefined) this.#audit?.refused(caller, request, excess)
    return excess
  }

  /** Waits until our clock has reached the fences that are to be lifted. If it was set back meanwhile, that is refused after all. */
  async #clockReaches(requests: readonly Request[], { principal, signal }: Caller): Promise<void> {
    if (requests.every((request) => aheadMs(request, principal, this.#environment.wall()) <= 0)) return
    const { name } = principal
    const waiting = this.#clockWaits.get(name) ?? 0
    if (waiting >= clockWaitsPerTokenMax) throw new HttpError(429, 'quota', tooManyClockWaits)
    this.#clockWaits.set(name, waiting + 1)
    try {
      await this.#untilClockReaches(requests, principal, signal)
    } finally {
      const left = (this.#clockWaits.get(name) ?? 1) - 1
      if (left === 0) this.#clockWaits.delete(name)
      else this.#clockWaits.set(name, left)
    }
  }

  async #untilClockReaches(
    requests: readonly Request[],
    principal: Principal,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const longestMs = (): number => {
      const wallMs = this.#environment.wall()
      return requests.reduce((most, request) => Math.max(most, aheadMs(request, principal, wallMs)), 0)
    }
    // A timer may fire a little early by the wall clock.
    for (let waits = 0, waitMs = longestMs(); waitMs > 0; waits += 1, waitMs = longestMs()) {
      if (waits === waitsMax) throw new RequestsRefused(notAllowed('The clock was set back. Try again.'))
      const delayMs = waitMs
      await new Promise<void>((resolve) => {
        const timer = this.#environment.timer(delayMs, resolve)
        const stop = (): void => {
          timer.cancel()
          resolve()
        }
        signal?.addEventListener('abort', stop, { once: true })
        if (signal?.aborted === true) stop()
      })
      // The token may be good no more, or nobody may wait for the answer.
      signal?.throwIfAborted()
    }
  }
}

interface CarryOutOptions extends SendForOptions {
  /** What each request lacks in rights or in the store. */
  readonly lacks: readonly (LeaseholdError | undefined)[]
}

const waitsMax = 3
/** Calls of one token that wait for the clock at once. Each takes one of the places for calls that all tokens share. */
const clockWaitsPerTokenMax = 16
const tooManyClockWaits = new LeaseholdError(
  'UNAVAILABLE',
  `This token has ${clockWaitsPerTokenMax} calls under way that lift a fence ahead of the clock. Wait for their answers.`,
  { reason: 'busy' },
)

/** None of the requests of a call is allowed. The audit has them one by one. @internal */
export class RequestsRefused extends HttpError {
  constructor(lack: LeaseholdError) {
    super(403, 'right', lack)
  }
}

/** All requests of a call are refused, and not all of them for the same reason. */
function refusalFor(lack: LeaseholdError): Error {
  if (lack.reason !== 'busy') return lack.reason === 'auth' ? new RequestsRefused(lack) : lack
  return new HttpError(429, 'quota', lack)
}

/**
 * Operators see by whose token a claim was made: what a runner says of itself proves nothing. Written into the runner itself: metadata
 * may have thousands of fields, and a copy would have to be checked anew.
 */
function markVia(request: Request, { name }: Principal): void {
  if (request.op !== 'claim') return
  const runner: Mutable<Runner> = request.claim.runner
  const metadata: Record<string, unknown> = runner.metadata ?? {}
  metadata['via'] = name
  runner.metadata = metadata
}

type Mutable<Value> = { -readonly [Field in keyof Value]: Value[Field] }

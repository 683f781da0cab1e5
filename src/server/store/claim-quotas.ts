import type { AbsentReason, Claim, ClaimStatus, Notification, Request } from '../../core/contract/driver.ts'
import { claimIdOf, claimName, keyOf } from '../../core/contract/requests.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { Environment } from '../../core/time/environment.ts'
import type { ServerLimits } from '../contract/limits.ts'
import type { ClaimTotals, ServerMetrics } from './metrics.ts'

/** A claim that somebody has by this server. */
interface CountedClaim {
  readonly key: string
  readonly token: string | undefined
  bytes: number
  readonly graceMs: number
  readonly maxHoldMs: number | undefined
  /** The id of the claim whose place this one takes when it is granted. */
  readonly replaces: string | undefined
  /** True: it waits, or it is on its way and may have to wait. */
  waits: boolean
  /** When the claim is over if nothing more is heard of it. */
  until: number
  /** The second in which to look whether it is over. */
  bucket: number
  /** Requests for the claim that are not answered. */
  pending: number
  /** The number of the newest request that was answered, and what the store has of the claim since. */
  decidedBy: number
  state: 'held' | 'waiting' | 'gone' | undefined
}

/** What somebody has. */
type Usage = { -readonly [Field in keyof ClaimTotals]: number }

/** What is too much. */
interface Excess {
  readonly quota: string
  readonly message: string
}

/** Claims without metadata take about this much, in the store of this process and in what the server knows of them. */
const bytesPerClaim = 1000
const retryAfterMs = 1000
const bucketMs = 1000

/** What the quotas work with. @internal */
export interface ClaimQuotasOptions {
  readonly limits: ServerLimits
  readonly environment: Pick<Environment, 'now'>
  readonly metrics: ServerMetrics
}

/**
 * Bounds what each token, each key and all callers together have by this server: claims, waiters, and the memory for them. It counts
 * what passes through this server, and never refuses to renew or to end a claim. @internal
 */
export class ClaimQuotas {
  readonly #limits: ServerLimits
  readonly #environment: Pick<Environment, 'now'>
  readonly #metrics: ServerMetrics
  readonly #claims = new Map<string, CountedClaim>()
  readonly #tokens = new Map<string, Usage>()
  readonly #waitersByKey = new Map<string, number>()
  readonly #inAll: Usage = { claims: 0, waiters: 0, bytes: 0 }
  /** Names of claims by the second in which to look whether they are over. A claim that was renewed is moved on then. */
  readonly #dueIn = new Map<number, Set<string>>()
  /** The number of each request under way. The requests of one claim reach the store in the order in which they were admitted. */
  readonly #numbers = new WeakMap<Request, number>()
  #lastNumber = 0
  readonly #refusals = new Map<string, LeaseholdError>()
  #sweptUntil: number

  constructor({ limits, environment, metrics }: ClaimQuotasOptions) {
    this.#limits = limits
    this.#environment = environment
    this.#metrics = metrics
    this.#sweptUntil = Math.floor(environment.now() / bucketMs)
    metrics.claims = () => this.#inAll
  }

  /** Names that are kept, to look at them later. */
  get namesKept(): number {
    let names = 0
    for (const due of this.#dueIn.values()) names += due.size
    return names
  }

  /**
   * Counts what a request is about to make, for a token; undefined: for callers without one. Gives why it is refused, if it is. What is
   * not refused is to be sent at once, and `answered`.
   */
  admit(request: Request, token: string | undefined): LeaseholdError | undefined {
    this.#sweep()
    const id = claimIdOf(request)
    if (id === undefined) return undefined
    if (request.op === 'claim') {
      const excess = this.#claiming(request.claim, token)
      if (excess !== undefined) {
        this.#metrics.quotaRefused(excess.quota)
        return this.#refusal(excess)
      }
    } else if (request.op === 'renew') this.#renewing(request, token)
    const counted = this.#claims.get(claimName({ key: keyOf(request), id }))
    if (counted === undefined) return undefined
    counted.pending += 1
    this.#lastNumber += 1
    this.#numbers.set(request, this.#lastNumber)
    return undefined
  }

  /** Takes in what became of a request that was admitted. */
  answered(request: Request, status: ClaimStatus): void {
    const id = claimIdOf(request)
    const number = this.#numbers.get(request)
    if (id === undefined || number === undefined) return
    this.#numbers.delete(request)
    const name = claimName({ key: keyOf(request), id })
    const counted = this.#claims.get(name)
    if (counted === undefined) return
    counted.pending -= 1
    // Counted by a renewal alone, and the store did not say whether there is such a claim: anybody can make up ids.
    const isMadeUp = request.op === 'renew' && status.state === 'unknown' && counted.decidedBy === 0
    if (isMadeUp && counted.pending === 0) return this.#remove(name, counted)
    if (number > counted.decidedBy) {
      counted.decidedBy = number
      this.#learn(counted, id, status)
    }
    this.#removeIfGone(name, counted)
  }

  /** Takes in what the store says by itself. */
  notified(key: string, id: string, notification: Notification): void {
    const name = claimName({ key, id })
    const counted = this.#claims.get(name)
    // A request under way may have made the claim anew: its answer says more.
    if (counted === undefined || notification === 'poll' || counted.pending > 0) return
    this.#learn(counted, id, notification)
    this.#removeIfGone(name, counted)
  }

  #learn(counted: CountedClaim, id: string, status: ClaimStatus): void {
    const { state } = status
    if (state === 'unknown') return
    counted.state = state === 'absent' ? 'gone' : state
    this.#setWaits(counted, state === 'waiting' || (state === 'absent' && counted.waits && counted.pending > 0))
    // The store goes on blocking others for a claim in its grace, and remembers an unclean end for a ttl, with all its metadata.
    if (state === 'absent' && uncleanReasons.has(status.reason)) counted.state = undefined
    if (state === 'held' && counted.replaces !== undefined && counted.replaces !== id) {
      const name = claimName({ key: counted.key, id: counted.replaces })
      const replaced = this.#claims.get(name)
      if (replaced !== undefined && replaced.pending === 0) this.#remove(name, replaced)
    }
  }

  #removeIfGone(name: string, counted: CountedClaim): void {
    if (counted.state === 'gone' && counted.pending === 0) this.#remove(name, counted)
  }

  /** A claim that is sent again may have ended meanwhile, and be made anew with more metadata: it is counted by what it says now. */
  #claiming(claim: Claim, token: string | undefined): Excess | undefined {
    const { key, graceMs, maxHoldMs, replaces } = claim
    const name = claimName(claim)
    const now = this.#environment.now()
    const known = this.#claims.get(name)
    const isSafelyHeld = known?.state === 'held' && known.maxHoldMs === undefined && now < known.until
    const counted: CountedClaim = {
      key,
      token: known === undefined ? token : known.token,
      bytes: Math.max(bytesOf(claim), known?.bytes ?? 0),
      graceMs: Math.max(graceMs, known?.graceMs ?? 0),
      maxHoldMs: maxHoldMs ?? known?.maxHoldMs,
      replaces,
      waits: (claim.wait && !isSafelyHeld) || known?.waits === true,
      until: Math.max(now + claim.ttlMs + graceMs, known?.until ?? 0),
      bucket: 0,
      pending: known?.pending ?? 0,
      decidedBy: known?.decidedBy ?? 0,
      state: known?.state,
    }
    if (known !== undefined) this.#remove(name, known)
    const excess = this.#excess(counted)
    if (excess === undefined) this.#add(name, counted)
    else if (known !== undefined) this.#add(name, known)
    return excess
  }

  /** A claim from before this server started is counted from its first renewal on. */
  #renewing({ key, id, ttlMs }: Extract<Request, { op: 'renew' }>, token: string | undefined): void {
    const name = claimName({ key, id })
    const until = this.#environment.now() + ttlMs
    const known = this.#claims.get(name)
    if (known !== undefined) {
      known.until = Math.max(known.until, until + known.graceMs)
      return
    }
    const counted: CountedClaim = {
      key,
      token,
      bytes: bytesPerClaim,
      graceMs: 0,
      maxHoldMs: undefined,
      replaces: undefined,
      waits: false,
      until,
      bucket: 0,
      pending: 0,
      decidedBy: 0,
      state: undefined,
    }
    // Nobody is refused a renewal; but made-up ids must not use up what all callers may have.
    if (this.#excess(counted) === undefined) this.#add(name, counted)
  }

  #excess({ key, token, bytes, waits }: CountedClaim): Excess | undefined {
    const { claimsInAllMax, claimBytesMax, waitersPerKeyMax } = this.#limits
    const { claimsPerTokenMax, waitersPerTokenMax, claimBytesPerTokenMax } = this.#limits
    const own = token === undefined ? undefined : this.#tokens.get(token)
    if (own !== undefined) {
      if (own.claims >= claimsPerTokenMax) return tooMany('token-claims', `${claimsPerTokenMax} claims of this token`)
      if (waits && own.waiters >= waitersPerTokenMax) {
        return tooMany('token-waiters', `${waitersPerTokenMax} waiting claims of this token`)
      }
      if (own.bytes + bytes > claimBytesPerTokenMax) {
        return tooMany('token-bytes', `${claimBytesPerTokenMax} bytes of claims of this token`)
      }
    }
    if (waits && (this.#waitersByKey.get(key) ?? 0) >= waitersPerKeyMax) {
      return tooMany('key-waiters', `${waitersPerKeyMax} waiting claims of this key`)
    }
    if (this.#inAll.claims >= claimsInAllMax) return tooMany('claims', `${claimsInAllMax} claims`)
    if (this.#inAll.bytes + bytes > claimBytesMax) return tooMany('bytes', `${claimBytesMax} bytes of claims`)
    return undefined
  }

  /** One error for each quota: a batch may be refused a thousand times. */
  #refusal({ quota, message }: Excess): LeaseholdError {
    let error = this.#refusals.get(quota)
    if (error === undefined) {
      error = new LeaseholdError('UNAVAILABLE', message, { reason: 'busy', retryAfterMs })
      this.#refusals.set(quota, error)
    }
    return error
  }

  #add(name: string, counted: CountedClaim): void {
    const { waits } = counted
    counted.waits = false
    this.#claims.set(name, counted)
    this.#change(counted, 1)
    this.#setWaits(counted, waits)
    this.#lookAt(name, counted)
  }

  #remove(name: string, counted: CountedClaim): void {
    const { waits } = counted
    this.#claims.delete(name)
    this.#setWaits(counted, false)
    this.#change(counted, -1)
    this.#forgetName(name, counted)
    counted.waits = waits
  }

  #change({ token, bytes }: CountedClaim, by: 1 | -1): void {
    for (const usage of this.#usages(token)) {
      usage.claims += by
      usage.bytes += by * bytes
    }
    if (token !== undefined && this.#tokens.get(token)?.claims === 0) this.#tokens.delete(token)
  }

  #setWaits(counted: CountedClaim, waits: boolean): void {
    if (counted.waits === waits) return
    counted.waits = waits
    this.#changeWaiters(counted, waits ? 1 : -1)
  }

  #changeWaiters({ key, token }: CountedClaim, by: 1 | -1): void {
    for (const usage of this.#usages(token)) usage.waiters += by
    const left = (this.#waitersByKey.get(key) ?? 0) + by
    if (left > 0) this.#waitersByKey.set(key, left)
    else this.#waitersByKey.delete(key)
  }

  #usages(token: string | undefined): readonly Usage[] {
    if (token === undefined) return [this.#inAll]
    let own = this.#tokens.get(token)
    if (own === undefined) this.#tokens.set(token, (own = { claims: 0, waiters: 0, bytes: 0 }))
    return [this.#inAll, own]
  }

  #lookAt(name: string, counted: CountedClaim): void {
    counted.bucket = Math.max(Math.ceil(counted.until / bucketMs), this.#sweptUntil + 1)
    const names = this.#dueIn.get(counted.bucket)
    if (names === undefined) this.#dueIn.set(counted.bucket, new Set([name]))
    else names.add(name)
  }

  /** A claim for a year that is released at once must leave nothing behind for a year. */
  #forgetName(name: string, { bucket }: CountedClaim): void {
    const names = this.#dueIn.get(bucket)
    names?.delete(name)
    if (names?.size === 0) this.#dueIn.delete(bucket)
  }

  /** Forgets claims that are over without a word. */
  #sweep(): void {
    const now = this.#environment.now()
    const bucketNow = Math.floor(now / bucketMs)
    if (bucketNow <= this.#sweptUntil) return
    // After a long silence there are fewer buckets than seconds.
    const due =
      bucketNow - this.#sweptUntil > this.#dueIn.size
        ? [...this.#dueIn.keys()].filter((bucket) => bucket <= bucketNow)
        : Array.from({ length: bucketNow - this.#sweptUntil }, (_, index) => this.#sweptUntil + index + 1)
    this.#sweptUntil = bucketNow
    for (const bucket of due) {
      const names = this.#dueIn.get(bucket) ?? []
      this.#dueIn.delete(bucket)
      for (const name of names) this.#forgetIfOver(name, now)
    }
  }

  #forgetIfOver(name: string, now: number): void {
    const counted = this.#claims.get(name)
    if (counted === undefined) return
    if (now >= counted.until) this.#remove(name, counted)
    else this.#lookAt(name, counted)
  }
}

function tooMany(quota: string, what: string): Excess {
  return { quota, message: `There are ${what} already, which is as many as this server takes. Try again later.` }
}

/** What a claim takes in memory, about. JSON of many small parts takes many times its length. */
function bytesOf({ key, id, runner }: Claim): number {
  return bytesPerClaim + 2 * (key.length + id.length) + memoryOf(runner)
}

/** How a claim ends that the store does not forget at once. */
const uncleanReasons: ReadonlySet<AbsentReason> = new Set<AbsentReason>(['expired', 'evicted', 'max-hold'])

const bytesPerPart = 48

function memoryOf(value: unknown): number {
  if (typeof value === 'string') return bytesPerPart + value.length
  if (typeof value !== 'object' || value === null) return bytesPerPart
  let bytes = bytesPerPart
  if (Array.isArray(value)) {
    for (const part of value as readonly unknown[]) bytes += memoryOf(part)
    return bytes
  }
  for (const name of Object.keys(value)) {
    bytes += name.length + memoryOf((value as Readonly<Record<string, unknown>>)[name])
  }
  return bytes
}

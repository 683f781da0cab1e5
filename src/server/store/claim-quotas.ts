import type { Claim, ClaimStatus, Notification, Request } from '../../core/contract/driver.ts'
import { claimIdOf, claimName, keyOf } from '../../core/contract/requests.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { Environment } from '../../core/time/environment.ts'
import type { ServerLimits } from '../contract/limits.ts'
import type { ClaimTotals, ServerMetrics } from './metrics.ts'

/** A claim that somebody has by this server. */
interface CountedClaim {
  readonly key: string
  readonly token: string | undefined
  readonly bytes: number
  /** True: it waits, or it is on its way and may have to wait. */
  waits: boolean
  /** When the claim is over if nothing more is heard of it. */
  until: number
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
  readonly #dueIn = new Map<number, string[]>()
  readonly #refusals = new Map<string, LeaseholdError>()
  #sweptUntil: number

  constructor({ limits, environment, metrics }: ClaimQuotasOptions) {
    this.#limits = limits
    this.#environment = environment
    this.#metrics = metrics
    this.#sweptUntil = Math.floor(environment.now() / bucketMs)
    metrics.claims = () => this.#inAll
  }

  /** Counts what a request is about to make, for a token; undefined: for callers without one. Gives why it is refused, if it is. */
  admit(request: Request, token: string | undefined): LeaseholdError | undefined {
    this.#sweep()
    if (request.op === 'renew') this.#renewing(request, token)
    if (request.op !== 'claim') return undefined
    const { claim } = request
    const name = claimName(claim)
    const until = this.#environment.now() + claim.ttlMs + claim.graceMs
    const known = this.#claims.get(name)
    if (known !== undefined) {
      known.until = Math.max(known.until, until)
      return undefined
    }
    const counted = { key: claim.key, token, bytes: bytesOf(claim), waits: claim.wait, until }
    const excess = this.#excess(counted)
    if (excess === undefined) {
      this.#add(name, counted)
      return undefined
    }
    this.#metrics.quotaRefused(excess.quota)
    return this.#refusal(excess)
  }

  /** Takes in what became of a request that was admitted. */
  answered(request: Request, status: ClaimStatus): void {
    const id = claimIdOf(request)
    if (id !== undefined) this.#learn(keyOf(request), id, status)
  }

  /** Takes in what the store says by itself. */
  notified(key: string, id: string, notification: Notification): void {
    if (notification !== 'poll') this.#learn(key, id, notification)
  }

  #learn(key: string, id: string, { state }: ClaimStatus): void {
    const name = claimName({ key, id })
    const counted = this.#claims.get(name)
    if (counted === undefined) return
    if (state === 'absent') this.#remove(name, counted)
    else if (state === 'held') this.#setWaits(counted, false)
    else if (state === 'waiting') this.#setWaits(counted, true)
  }

  /** A claim from before this server started is counted from its first renewal on. */
  #renewing({ key, id, ttlMs }: Extract<Request, { op: 'renew' }>, token: string | undefined): void {
    const name = claimName({ key, id })
    const until = this.#environment.now() + ttlMs
    const known = this.#claims.get(name)
    if (known !== undefined) known.until = Math.max(known.until, until)
    else this.#add(name, { key, token, bytes: bytesPerClaim, waits: false, until })
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
    this.#claims.set(name, counted)
    this.#change(counted, 1)
    if (counted.waits) this.#changeWaiters(counted, 1)
    this.#lookAt(name, counted.until)
  }

  #remove(name: string, counted: CountedClaim): void {
    this.#claims.delete(name)
    this.#setWaits(counted, false)
    this.#change(counted, -1)
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

  #lookAt(name: string, until: number): void {
    const bucket = Math.max(Math.ceil(until / bucketMs), this.#sweptUntil + 1)
    const names = this.#dueIn.get(bucket)
    if (names === undefined) this.#dueIn.set(bucket, [name])
    else names.push(name)
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
    else this.#lookAt(name, counted.until)
  }
}

function tooMany(quota: string, what: string): Excess {
  return { quota, message: `There are ${what} already, which is as many as this server takes. Try again later.` }
}

/** What a claim takes in memory, about. JSON of many small parts takes many times its length. */
function bytesOf({ key, id, runner }: Claim): number {
  return bytesPerClaim + 2 * (key.length + id.length) + memoryOf(runner)
}

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

import { claimIdOf, keyOf } from '../../core/contract/requests.ts'
import type { Request, ClaimStatus } from '../../core/contract/driver.ts'

/** A claim of this driver as it was last answered. */
export interface RegisteredClaim {
  readonly state: 'held' | 'waiting'
  readonly leaving: boolean
  /** Until then, on the clock of this process, it surely holds, and it succeeded no claim that must be remembered. */
  readonly safeUntil: number
  /** Until then, on the clock of this process, its owner has asked again if it lives. */
  readonly askedUntil: number
  /** Its owner has been told to poll, and has no answer yet. */
  polled: boolean
}

/** What answers showed. */
export interface Noted {
  /** Keys to poll from now on: new ones, and those that a new claim waits for. */
  readonly keys: readonly string[]
  /** Claims that another driver changed, and whose owners polled before a notification came. */
  readonly found: readonly { readonly key: string; readonly id: string }[]
}

/** Claims whose owners are gone are swept once there are so many claims, and then whenever there are twice as many as were left. */
const sweepFrom = 1000

/** The claims of this driver that are not over, by key: those whose notifications may have been missed are among them. */
export class ClaimRegister {
  readonly #byKey = new Map<string, Map<string, RegisteredClaim>>()
  #size = 0
  #sweepAt = sweepFrom

  has(key: string, id: string): boolean {
    return this.#byKey.get(key)?.has(id) === true
  }

  of(key: string): ReadonlyMap<string, RegisteredClaim> {
    return this.#byKey.get(key) ?? none
  }

  keys(): Iterable<string> {
    return this.#byKey.keys()
  }

  waitsFor(key: string): boolean {
    for (const { state } of this.of(key).values()) if (state === 'waiting') return true
    return false
  }

  /** Whether a claim surely holds at a time of this process's clock, and succeeded no claim that must be remembered. */
  isSafe(key: string, id: string, now: number): boolean {
    return now < (this.#byKey.get(key)?.get(id)?.safeUntil ?? -Infinity)
  }

  /** Records the answers to requests sent at `sentAt`, on the clock of this process. */
  note(requests: readonly Request[], statuses: readonly ClaimStatus[], sentAt: number): Noted {
    const keys: string[] = []
    const found: { key: string; id: string }[] = []
    for (const [index, request] of requests.entries()) {
      const status = statuses[index]
      const id = claimIdOf(request)
      if (id === undefined || status === undefined || status.state === 'unknown') continue
      const key = keyOf(request)
      const before = this.#byKey.get(key)?.get(id)
      const after = registeredClaim(status, sentAt)
      const leaves = request.op === 'release' || (request.op === 'withdraw' && after === undefined)
      if (before?.polled === false && !leaves && differs(before, after)) found.push({ key, id })
      if (after === undefined) this.#delete(key, id)
      else {
        if (before === undefined && (this.#byKey.get(key) === undefined || after.state === 'waiting')) keys.push(key)
        this.#put(key, id, after)
      }
    }
    if (this.#size >= this.#sweepAt) this.#sweep(sentAt)
    return { keys, found }
  }

  /** Its owner has been notified of this status, and need not be asked to poll. */
  told(key: string, id: string, status: ClaimStatus): void {
    const before = this.#byKey.get(key)?.get(id)
    if (before === undefined || status.state === 'unknown') return
    if (status.state === 'absent') this.#delete(key, id)
    else this.#put(key, id, { ...before, state: status.state, leaving: isLeaving(status) })
  }

  /** The claim is no longer stored, and its owner does not ask: it may have been of a client that died behind a server. */
  forget(key: string, id: string): void {
    this.#delete(key, id)
  }

  clear(): void {
    this.#byKey.clear()
    this.#size = 0
  }

  /** A claim that another thread renews may be among those forgotten: it then hears of an end by its next renewal. */
  #sweep(now: number): void {
    for (const [key, claims] of this.#byKey) {
      for (const [id, { askedUntil }] of claims) if (askedUntil < now) this.#delete(key, id)
    }
    this.#sweepAt = Math.max(sweepFrom, 2 * this.#size)
  }

  #put(key: string, id: string, claim: RegisteredClaim): void {
    let claims = this.#byKey.get(key)
    if (claims === undefined) this.#byKey.set(key, (claims = new Map()))
    if (!claims.has(id)) this.#size += 1
    claims.set(id, claim)
  }

  #delete(key: string, id: string): void {
    const claims = this.#byKey.get(key)
    if (claims?.delete(id) !== true) return
    this.#size -= 1
    if (claims.size === 0) this.#byKey.delete(key)
  }
}

function registeredClaim(status: ClaimStatus, sentAt: number): RegisteredClaim | undefined {
  if (status.state !== 'held' && status.state !== 'waiting') return undefined
  const askedUntil = sentAt + status.ttlMs
  if (status.state === 'waiting')
    return { state: 'waiting', leaving: false, safeUntil: -Infinity, askedUntil, polled: false }
  // The server counted the ttl after the sending, by a clock that may run a little faster.
  const safeUntil = status.after === undefined ? sentAt + 0.9 * status.ttlMs : -Infinity
  return { state: 'held', leaving: isLeaving(status), safeUntil, askedUntil, polled: false }
}

function isLeaving(status: ClaimStatus): boolean {
  return status.state === 'held' && status.leaving !== undefined
}

function differs(before: RegisteredClaim, after: RegisteredClaim | undefined): boolean {
  return before.state !== after?.state || before.leaving !== after.leaving
}

const none: ReadonlyMap<string, RegisteredClaim> = new Map()

import { urgencyOf } from '../contract/requests.ts'
import type { LockDriver, Request, ClaimStatus } from '../contract/driver.ts'
import type { Environment, Timer } from '../time/environment.ts'
import { clientClosed, type LeaseholdError } from '../errors.ts'
import { limitError, limitFault, type RequestFault } from '../contract/limits.ts'
import {
  byKey,
  byUrgency,
  firstPieces,
  inOrderToAnswer,
  isOneRenewal,
  PendingRequest,
  requestsPerBatchMax,
  split,
  type Requester,
} from './batch-pieces.ts'
import { checkedAnswer, malformed } from '../contract/status-check.ts'

export type { Requester } from './batch-pieces.ts'

/** A request that is not sent, because it is out of limits. */
interface OutOfLimits {
  readonly request: Request
  readonly requester: Requester
  readonly fault: RequestFault
}

/** What one `send` is made of, in order of its keys. */
interface Batch {
  readonly pending: readonly PendingRequest[]
  /** The same in the order in which they are answered. */
  readonly inOrder: readonly PendingRequest[]
  /** Whether the keys of the batch are in `#busy`. */
  listed: boolean
}

/** So many requests are sent before the turn is over: the store works on them while the next are made. */
const requestsWorthStarting = 250
/** The longest that a request is held back by requests of other claims of its key. */
const heldBackMaxMs = 1000
/** The pause between two batches of a key that overtake: very many requests must not all be sent at once. */
const overtakeEveryMs = 10

/**
 * Gathers the requests of one turn of the event loop and sends them in one `send`, sorted by key; if there are more than
 * `requestsPerBatchMax`, in several. The requests of a key arrive in order whatever connections the driver uses: while one
 * is under way, the next is held back, and very many of one key are sent piece by piece, each after the answer before.
 *
 * A request that the store does not answer must not cost other claims of its key their leases. So a renewal or a release
 * is held back only for a part of its lease (`overtakesAt`), and is then sent beside the request under way, unless both
 * are of the same claim: the requests of one claim always arrive in order. Claims never overtake, so that the claims of a
 * key keep their order.
 *
 * A request that is out of the store's limits is refused here and never sent.
 */
export class Batcher {
  readonly #driver: Pick<LockDriver, 'send' | 'supports'>
  readonly #environment: Environment
  #gathered: PendingRequest[] = []
  /** The next pieces of keys with very many requests, due with the next batch. The rest of each is still in `#busy`. */
  #nextPieces: PendingRequest[] = []
  /** Requests out of limits, answered with the next batch. */
  #refused: OutOfLimits[] = []
  #flushing = false
  /** Keys with a request under way, and the requests held back by it. Filled only when there is more to send meanwhile. */
  readonly #busy = new Map<string, PendingRequest[] | undefined>()
  #underWay = 0
  /** Batches under way whose keys are not in `#busy` yet. */
  #unlisted: Batch[] = []
  /** Batches under way whose keys are in `#busy`. */
  #listed: Batch[] = []
  /** How many batches beyond the first are under way for a key. Empty unless the store does not answer. */
  readonly #overtaken = new Map<string, number>()
  #overtaking: Timer | undefined
  #overtakingAt = Infinity
  #numbers = 0
  #awaitingIdle: (() => void)[] = []
  #awaitingAnswers: (() => void)[] = []
  #closed = false

  constructor(driver: Pick<LockDriver, 'send' | 'supports'>, environment: Environment) {
    this.#driver = driver
    this.#environment = environment
  }

  /** Sends the request with the next batch its key allows. It is never answered before this returns. */
  submit(request: Request, requester: Requester): void {
    const fault = limitFault(request, this.#driver.supports)
    if (fault !== undefined) {
      this.#refused.push({ request, requester, fault })
      return this.#flushSoon()
    }
    this.#numbers += 1
    const pending = new PendingRequest(request, requester, this.#numbers)
    // An array made with its first member reserves no room for sixteen more: most batches have one request.
    if (this.#gathered.length === 0) this.#gathered = [pending]
    else this.#gathered.push(pending)
    // Renewals are in no hurry: the larger their batches, the less they cost.
    if (this.#gathered.length < requestsWorthStarting || request.op === 'renew') this.#flushSoon()
    else this.#flush()
  }

  /** Resolves when nothing is gathered or under way. */
  async settled(): Promise<void> {
    while (!this.#isIdle) {
      await new Promise<void>((resolve) => this.#awaitingIdle.push(resolve))
    }
  }

  /** Resolves when every request of the key that was submitted before this call has been answered. */
  async keyAnswered(key: string): Promise<void> {
    const last = this.#numbers
    while (this.#isUnanswered(key, last)) {
      await new Promise<void>((resolve) => this.#awaitingAnswers.push(resolve))
    }
  }

  /** Sends nothing more. Requests not sent yet are answered `unknown` with CLOSED. */
  close(): void {
    this.#closed = true
    this.#disarm()
  }

  #flushSoon(): void {
    if (this.#flushing) return
    this.#flushing = true
    this.#environment.defer(this.#turnOver)
  }

  readonly #turnOver = (): void => {
    this.#flushing = false
    this.#flush()
  }

  #flush(): void {
    if (this.#refused.length > 0) this.#answerRefused()
    if (this.#closed) return this.#refuse(this.#takeUnsent())
    const gathered = this.#gathered
    this.#gathered = []
    const hasPieces = this.#nextPieces.length > 0
    this.#sendReady(this.#underWay === 0 && !hasPieces ? gathered : this.#freeAmong(gathered))
    // The answer to a piece frees the next one: its key must be listed.
    if (hasPieces) this.#listAll()
  }

  #sendReady(ready: PendingRequest[]): void {
    if (ready.length === 0) return
    if (ready.length === 1 || isOneRenewal(ready)) return this.#send(ready, ready)
    ready.sort(byKey)
    if (ready.length > requestsPerBatchMax) return this.#sendInPieces(ready)
    if (ready.every(({ request }) => urgencyOf(request) === 0)) return this.#send(ready, inOrderToAnswer(ready))
    this.#sendByUrgency(ready)
  }

  #sendByUrgency(ready: readonly PendingRequest[], overtaking = false): void {
    for (const alike of byUrgency(ready)) {
      for (const pending of split(alike)) this.#send(pending, inOrderToAnswer(pending), overtaking)
    }
  }

  /** Sends no more than one batch of each key; the rest is held back until that is answered. */
  #sendInPieces(ready: readonly PendingRequest[]): void {
    const [pieces, rest] = firstPieces(ready)
    this.#sendByUrgency(pieces)
    if (rest.length === 0) return
    this.#listAll()
    for (const pending of rest) this.#isFree(pending)
  }

  /** Takes out what was to be sent next, with all that waits behind it. */
  #takeUnsent(): PendingRequest[] {
    const unsent = [...this.#nextPieces, ...this.#gathered]
    for (const { key } of this.#nextPieces) {
      for (const pending of this.#busy.get(key) ?? []) unsent.push(pending)
      this.#busy.delete(key)
    }
    this.#nextPieces = []
    this.#gathered = []
    return unsent
  }

  #answerRefused(): void {
    const at = this.#environment.now()
    for (const { request, requester, fault } of this.#refused.splice(0)) {
      requester.answered(request, { state: 'unknown', error: limitError(fault) }, Math.floor(at), at)
    }
    this.#notifyIfIdle()
  }

  #refuse(gathered: readonly PendingRequest[]): void {
    const at = this.#environment.now()
    const status: ClaimStatus = { state: 'unknown', error: clientClosed() }
    for (const { request, requester } of gathered) requester.answered(request, status, Math.floor(at), at)
    for (const notify of this.#awaitingAnswers.splice(0)) notify()
    this.#notifyIfIdle()
  }

  /** The next pieces, and the requests whose key has nothing under way. The others are held back. */
  #freeAmong(gathered: readonly PendingRequest[]): PendingRequest[] {
    this.#listAll()
    const pieces = this.#nextPieces
    this.#nextPieces = []
    const free = gathered.filter((pending) => this.#isFree(pending))
    return pieces.length === 0 ? free : [...pieces, ...free]
  }

  #listAll(): void {
    for (const batch of this.#unlisted) {
      batch.listed = true
      this.#listed.push(batch)
      // If the key is listed already, this is a piece, and the rest of its requests waits there.
      for (const key of keysOf(batch)) if (!this.#busy.has(key)) this.#busy.set(key, undefined)
    }
    this.#unlisted = []
  }

  #isFree(pending: PendingRequest): boolean {
    const waiting = this.#busy.get(pending.key)
    if (waiting !== undefined) waiting.push(pending)
    else if (this.#busy.has(pending.key)) this.#busy.set(pending.key, [pending])
    else return true
    const { request } = pending
    if (request.op !== 'claim') {
      // Whole milliseconds, so that the requests of one turn overtake together.
      pending.overtakesAt = Math.ceil(this.#environment.now() + heldBackMs(request))
      this.#overtakeAt(pending.overtakesAt)
    }
    return false
  }

  #overtakeAt(at: number): void {
    if (at >= this.#overtakingAt || this.#closed) return
    this.#disarm()
    this.#overtakingAt = at
    this.#overtaking = this.#environment.timer(at - this.#environment.now(), this.#overtake)
  }

  #disarm(): void {
    this.#overtaking?.cancel()
    this.#overtaking = undefined
    this.#overtakingAt = Infinity
  }

  /** Sends the requests that were held back for long enough and follow no unanswered request of their own claim. */
  readonly #overtake = (): void => {
    this.#disarm()
    const now = this.#environment.now()
    const unanswered = new Set<string>()
    for (const { pending } of this.#listed) for (const { request } of pending) unanswered.add(orderingNameOf(request))
    for (const { request } of this.#nextPieces) unanswered.add(orderingNameOf(request))
    const ready: PendingRequest[] = []
    let nextAt = Infinity
    for (const [key, waiting] of this.#busy) {
      if (waiting === undefined) continue
      const readyMax = ready.length + requestsPerBatchMax
      const stay = waiting.filter((pending) => {
        const id = orderingNameOf(pending.request)
        if (pending.overtakesAt > now) nextAt = Math.min(nextAt, pending.overtakesAt)
        else if (pending.overtakesAt >= 0 && !unanswered.has(id)) {
          if (ready.length >= readyMax) {
            nextAt = Math.min(nextAt, Math.ceil(now + overtakeEveryMs))
            return true
          }
          ready.push(pending)
          return false
        }
        unanswered.add(id)
        return true
      })
      if (stay.length < waiting.length) this.#busy.set(key, stay.length === 0 ? undefined : stay)
    }
    if (nextAt < Infinity) this.#overtakeAt(nextAt)
    ready.sort(byKey)
    this.#sendByUrgency(ready, true)
  }

  /** Whether a request of the key that is not younger than number `last` has no answer yet. */
  #isUnanswered(key: string, last: number): boolean {
    const isMeant = (pending: PendingRequest): boolean => pending.key === key && pending.number <= last
    if (this.#gathered.some(isMeant) || this.#nextPieces.some(isMeant)) return true
    if (this.#busy.get(key)?.some(isMeant) === true) return true
    return [this.#unlisted, this.#listed].some((batches) => batches.some(({ pending }) => pending.some(isMeant)))
  }

  /** `overtaking`: other batches under way have the same keys. */
  #send(pending: readonly PendingRequest[], inOrder: readonly PendingRequest[], overtaking = false): void {
    const batch: Batch = { pending, inOrder, listed: overtaking }
    const requests = pending.map(({ request }) => request)
    if (overtaking) {
      this.#listed.push(batch)
      for (const key of keysOf(batch)) this.#overtaken.set(key, (this.#overtaken.get(key) ?? 0) + 1)
    } else this.#unlisted.push(batch)
    this.#underWay += 1
    // Start the clock before sending: a slow reply must shorten the lease we trust. So does rounding down.
    const sentAt = Math.floor(this.#environment.now())
    // Not awaited: for a single lock, promises take longer than all the rest.
    this.#begin(requests).then(
      (statuses) => this.#answered(batch, statuses, sentAt, undefined),
      (error: unknown) => this.#answered(batch, [], sentAt, error),
    )
  }

  #begin(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    try {
      // A driver is somebody else's code: it may answer with no promise at all.
      return Promise.resolve(this.#driver.send(requests))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #answered(batch: Batch, statuses: readonly ClaimStatus[], sentAt: number, failure: unknown): void {
    const { pending } = batch
    const error = failure ?? countError(statuses, pending)
    this.#underWay -= 1
    const at = this.#environment.now()
    takeOut(batch.listed ? this.#listed : this.#unlisted, batch)
    if (batch.listed) for (const key of keysOf(batch)) this.#free(key)
    for (let index = 0; index < pending.length; index += 1) {
      const answered = pending[index] as PendingRequest
      answered.status =
        error === undefined
          ? checkedAnswer(statuses[index], answered.request, this.#driver.supports)
          : { state: 'unknown', error }
    }
    for (const { request, requester, status } of batch.inOrder) {
      requester.answered(request, status as ClaimStatus, sentAt, at)
    }
    if (this.#awaitingAnswers.length > 0) for (const notify of this.#awaitingAnswers.splice(0)) notify()
    this.#notifyIfIdle()
  }

  get #isIdle(): boolean {
    const isUnsent = this.#gathered.length + this.#nextPieces.length + this.#refused.length > 0
    return this.#underWay === 0 && !isUnsent
  }

  #notifyIfIdle(): void {
    if (this.#isIdle && this.#awaitingIdle.length > 0) for (const notify of this.#awaitingIdle.splice(0)) notify()
  }

  /** A batch of this key has been answered. */
  #free(key: string): void {
    const waiting = this.#busy.get(key)
    const otherBatches = this.#overtaken.size === 0 ? undefined : this.#overtaken.get(key)
    if (otherBatches !== undefined) {
      if (otherBatches === 1) this.#overtaken.delete(key)
      else this.#overtaken.set(key, otherBatches - 1)
      // The next request of the answered claim may have been held back by this one.
      if (waiting !== undefined) this.#overtakeAt(Math.ceil(this.#environment.now()))
      return
    }
    if (waiting !== undefined && waiting.length > requestsPerBatchMax && !this.#closed) {
      for (const pending of waiting.splice(0, requestsPerBatchMax)) this.#nextPieces.push(pending)
      return this.#flushSoon()
    }
    this.#busy.delete(key)
    if (waiting === undefined) return
    for (const pending of waiting) this.#gathered.push(pending)
    this.#flushSoon()
  }
}

/** Requests with the same name keep their order: those of one claim, and evictions of one fence, which name no claim. */
function orderingNameOf(request: Request): string {
  if (request.op === 'claim') return request.claim.id
  return request.op === 'evict' ? `fence ${request.fence} of ${request.key}` : request.id
}

/** For how long other claims of its key may hold a request back. A renewal needs most of its lease for another try. */
function heldBackMs(request: Request): number {
  return request.op === 'renew' ? Math.min(heldBackMaxMs, request.ttlMs / 10) : heldBackMaxMs
}

/** The keys of a batch, each once: a batch is sorted by key. */
function* keysOf({ pending }: Batch): Iterable<string> {
  let last: string | undefined
  for (const { key } of pending) {
    if (key !== last) yield key
    last = key
  }
}

/** Removes a batch; mostly the one that was sent last. */
function takeOut(batches: Batch[], batch: Batch): void {
  if (batches.at(-1) === batch) batches.pop()
  else batches.splice(batches.indexOf(batch), 1)
}

/** The error if there is not one answer for each request. */
function countError(statuses: readonly ClaimStatus[], batch: readonly PendingRequest[]): LeaseholdError | undefined {
  if (!Array.isArray(statuses)) return malformed(typeof statuses)
  if (statuses.length === batch.length) return undefined
  return malformed(`${statuses.length} answers to ${batch.length} requests`)
}

/** Submits one request and resolves with its answer. */
export function submitOnce(batcher: Batcher, request: Request): Promise<ClaimStatus> {
  return new Promise((resolve) => batcher.submit(request, { answered: (_, status) => resolve(status) }))
}

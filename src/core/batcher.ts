import type { LockDriver, Request, Standing } from './driver.ts'
import type { Environment } from './time/environment.ts'
import { urgencyOf } from './time/patience.ts'
import { clientClosed, LeaseholdError } from './errors.ts'

/** Whoever made a request. `answered` is called once, with the times just before it was sent and when the answer came. */
export interface Requester {
  answered(request: Request, standing: Standing, sentAt: number, at: number): void
}

interface Pending {
  readonly key: string
  readonly request: Request
  readonly requester: Requester
}

/** What one `send` is made of, in order of its keys. */
interface Batch {
  readonly pending: readonly Pending[]
  /** Whether its keys are known to be busy. */
  listed: boolean
}

/** The most requests of one `send`: larger ones would hold up those of others in the store. */
const requestsPerBatchMax = 500
/** So many are sent in the middle of a turn: the store is at work on them while the next are made. */
const requestsWorthStarting = 250

/**
 * Gathers what one turn of the event loop asks for and sends it in one `send`, sorted by key; if it is very much, in
 * several. While a key has a request under way nothing more is sent for it, so that requests arrive in order whatever
 * connections the driver uses.
 */
export class Batcher {
  readonly #driver: Pick<LockDriver, 'send'>
  readonly #environment: Environment
  #gathered: Pending[] = []
  #flushing = false
  /** Keys with a request under way, and what waits for them. Listed only when there is more to send meanwhile. */
  readonly #busy = new Map<string, Pending[] | undefined>()
  #underWay = 0
  /** Batches under way whose keys are not in `#busy` yet. */
  #unlisted: Batch[] = []
  #awaitingIdle: (() => void)[] = []
  #closed = false

  constructor(driver: Pick<LockDriver, 'send'>, environment: Environment) {
    this.#driver = driver
    this.#environment = environment
  }

  /** Sends the request with the next batch its key allows. It is never answered before this returns. */
  submit(request: Request, requester: Requester): void {
    const pending = { key: keyOf(request), request, requester }
    // An array that is made with its first member has no room for sixteen more: most have no more.
    if (this.#gathered.length === 0) this.#gathered = [pending]
    else this.#gathered.push(pending)
    // Renewals are in no hurry: the larger their batches, the less they cost.
    if (this.#gathered.length < requestsWorthStarting || request.op === 'renew') this.#flushSoon()
    else this.#flush()
  }

  /** Resolves when nothing is gathered or under way. */
  async settled(): Promise<void> {
    while (this.#gathered.length > 0 || this.#underWay > 0) {
      await new Promise<void>((resolve) => this.#awaitingIdle.push(resolve))
    }
  }

  /** Sends nothing more. Whoever asks for something is told that its outcome is not known. */
  close(): void {
    this.#closed = true
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
    const gathered = this.#gathered
    this.#gathered = []
    if (this.#closed) return this.#refuse(gathered)
    const ready = this.#underWay === 0 ? gathered : this.#freeAmong(gathered)
    if (ready.length > 1) ready.sort(byKey)
    if (ready.length === 1) this.#send(ready)
    else for (const pending of byUrgency(ready)) this.#sendSorted(pending)
  }

  #sendSorted(ready: readonly Pending[]): void {
    if (ready.length <= requestsPerBatchMax) {
      if (ready.length > 0) this.#send(ready)
    } else for (const pending of split(ready)) this.#send(pending)
  }

  #refuse(gathered: readonly Pending[]): void {
    const at = this.#environment.now()
    const standing: Standing = { state: 'unknown', error: clientClosed() }
    for (const { request, requester } of gathered) requester.answered(request, standing, Math.floor(at), at)
    this.#tellIfIdle()
  }

  /** Those whose key has nothing under way; the others wait for that. */
  #freeAmong(gathered: readonly Pending[]): Pending[] {
    for (const batch of this.#unlisted) {
      batch.listed = true
      for (const { key } of batch.pending) this.#busy.set(key, undefined)
    }
    this.#unlisted = []
    return gathered.filter((pending) => this.#isFree(pending))
  }

  #isFree(pending: Pending): boolean {
    const waiting = this.#busy.get(pending.key)
    if (waiting !== undefined) waiting.push(pending)
    else if (this.#busy.has(pending.key)) this.#busy.set(pending.key, [pending])
    else return true
    return false
  }

  #send(pending: readonly Pending[]): void {
    const batch: Batch = { pending, listed: false }
    const requests = pending.map(({ request }) => request)
    this.#unlisted.push(batch)
    this.#underWay += 1
    // Start the clock before sending: a slow reply must shorten the lease we trust. So does rounding down.
    const sentAt = Math.floor(this.#environment.now())
    // Not awaited: for one lock by itself, promises take longer than the rest.
    this.#begin(requests).then(
      (standings) => this.#answered(batch, standings, sentAt, undefined),
      (error: unknown) => this.#answered(batch, [], sentAt, error),
    )
  }

  #begin(requests: readonly Request[]): Promise<readonly Standing[]> {
    try {
      // A driver is somebody else's code: it may answer with no promise at all.
      return Promise.resolve(this.#driver.send(requests))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #answered(batch: Batch, standings: readonly Standing[], sentAt: number, failure: unknown): void {
    const { pending } = batch
    const error = failure ?? unlessWhole(standings, pending)
    this.#underWay -= 1
    const at = this.#environment.now()
    if (batch.listed) for (const { key } of pending) this.#free(key)
    else if (this.#unlisted.at(-1) === batch) this.#unlisted.pop()
    else this.#unlisted.splice(this.#unlisted.indexOf(batch), 1)
    for (let index = 0; index < pending.length; index += 1) {
      const { request, requester } = pending[index] as Pending
      const standing: Standing = error === undefined ? checked(standings[index]) : { state: 'unknown', error }
      requester.answered(request, standing, sentAt, at)
    }
    this.#tellIfIdle()
  }

  #tellIfIdle(): void {
    const isIdle = this.#underWay === 0 && this.#gathered.length === 0
    if (isIdle && this.#awaitingIdle.length > 0) for (const tell of this.#awaitingIdle.splice(0)) tell()
  }

  #free(key: string): void {
    const waiting = this.#busy.get(key)
    this.#busy.delete(key)
    if (waiting === undefined) return
    this.#gathered.push(...waiting)
    this.#flushSoon()
  }
}

export function keyOf(request: Request): string {
  return request.op === 'claim' ? request.claim.key : request.key
}

/** Sorting is stable: requests of one key stay in the order asked. */
function byKey(one: Pending, other: Pending): number {
  return one.key < other.key ? -1 : one.key > other.key ? 1 : 0
}

/**
 * The requests apart by urgency, mostly all in one: how long a batch may take is up to the most urgent of its requests, and one
 * that must hurry must not make others time out. The requests of one key stay together, as urgent as the least of them.
 */
function byUrgency(requests: readonly Pending[]): Iterable<readonly Pending[]> {
  if (requests.every(({ request }) => urgencyOf(request) === 0)) return [requests]
  const apart = new Map<number, Pending[]>()
  for (let from = 0, to = 0; from < requests.length; from = to) {
    let urgency = Infinity
    for (; requests[to] !== undefined && requests[to]?.key === requests[from]?.key; to += 1) {
      urgency = Math.min(urgency, urgencyOf((requests[to] as Pending).request))
    }
    const like = apart.get(urgency)
    if (like === undefined) apart.set(urgency, requests.slice(from, to))
    else like.push(...requests.slice(from, to))
  }
  return apart.values()
}

/** Batches of at most `requestsPerBatchMax`, never dividing the requests of one key. */
function* split(requests: readonly Pending[]): Iterable<readonly Pending[]> {
  let from = 0
  for (let to = 1; to <= requests.length; to += 1) {
    const next = requests[to]
    const full = to - from >= requestsPerBatchMax && next !== undefined
    if (full && next.key === requests[to - 1]?.key) continue
    if (full || next === undefined) {
      yield requests.slice(from, to)
      from = to
    }
  }
}

/** What is wrong with answers that are not one for each request. */
function unlessWhole(standings: readonly Standing[], batch: readonly Pending[]): LeaseholdError | undefined {
  if (!Array.isArray(standings)) return malformed(typeof standings)
  if (standings.length === batch.length) return undefined
  return malformed(`${standings.length} answers to ${batch.length} requests`)
}

/** A driver is somebody else's code: what it answers is looked at before it is believed. */
function checked(standing: Standing | null | undefined): Standing {
  if (standing === undefined || standing === null) return { state: 'unknown', error: malformed('nothing') }
  switch (standing.state) {
    case 'held':
      if (Number.isSafeInteger(standing.fence) && standing.fence > 0 && standing.ttlMs >= 0) return standing
      break
    case 'waiting':
      if (standing.ahead >= 0 && standing.ttlMs >= 0 && standing.againMs >= 0) return standing
      break
    case 'absent':
      if (typeof standing.reason === 'string') return standing
      break
    case 'unknown':
      return standing
  }
  return { state: 'unknown', error: malformed(JSON.stringify(standing)) }
}

function malformed(what: string): LeaseholdError {
  return new LeaseholdError('INVALID', `The store's driver answered with ${what}. This is a fault of the driver.`)
}

/** One request by itself, with its answer. */
export function submitOnce(batcher: Batcher, request: Request): Promise<Standing> {
  return new Promise((resolve) => batcher.submit(request, { answered: (_, standing) => resolve(standing) }))
}

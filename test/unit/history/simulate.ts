import { admit } from '../../../src/core/rule/admission.ts'
import type { Claim, Request } from '../../../src/core/contract/driver.ts'
import { KeyState } from '../../../src/core/rule/key-state.ts'
import { seededRandom } from '../../../src/testing/random.ts'
import type { HistoryEvent } from '../../../src/testing/index.ts'

/** What a client asks for, over and over. */
export type Trade = Pick<Claim, 'key' | 'mode' | 'limit' | 'range'>

const ttlMs = 400

/** What the clients of a simulation compete for. */
export const trades: Readonly<Record<string, (random: () => number) => Trade>> = {
  mutex: () => ({ key: 'mutex', mode: 'exclusive' }),
  semaphore: () => ({ key: 'semaphore', mode: 'shared', limit: 3 }),
  'readers and writers': (random) => ({ key: 'rw', mode: random() < 0.3 ? 'exclusive' : 'shared' }),
  ranges(random) {
    const start = Math.floor(random() * 5)
    const range = { start, end: start + 1 + Math.floor(random() * 2) }
    return { key: 'ranges', mode: random() < 0.6 ? 'exclusive' : 'shared', range }
  },
}

interface Client {
  readonly name: string
  dead: boolean
}

interface Attempt {
  readonly client: Client
  readonly claim: Claim
  sentAt: number
  done: boolean
}

/**
 * Clients that lock, wait, renew, crash and freeze, on one store, with every message late by chance. The lock is right, so
 * the checker must not find anything, whatever the faults.
 */
export class Simulation {
  readonly events: HistoryEvent[] = []
  readonly #random: () => number
  readonly #trade: (random: () => number) => Trade
  readonly #faults: number
  readonly #keys = new Map<string, KeyState>()
  readonly #attempts = new Map<string, Attempt>()
  readonly #agenda: { at: number; action: () => void }[] = []
  #now = 0
  #names = 0

  constructor(seed: number, trade: (random: () => number) => Trade, faults: number) {
    this.#random = seededRandom(seed)
    this.#trade = trade
    this.#faults = faults
  }

  run(clients: number, untilMs: number): HistoryEvent[] {
    for (let index = 0; index < clients; index += 1) {
      const client = { name: `client-${index}`, dead: false }
      this.#in(this.#random() * 20, () => this.#begin(client))
    }
    while (this.#now < untilMs) {
      const next = this.#agenda.shift()
      if (next === undefined) break
      this.#now = next.at
      next.action()
    }
    return this.events.toSorted((a, b) => a.at - b.at)
  }

  #begin(client: Client): void {
    if (client.dead) return
    const id = `attempt-${(this.#names += 1)}`
    const trade = this.#trade(this.#random)
    const runner = { id: client.name, incarnation: '1', host: 'host', pid: 1, client: client.name }
    const claim: Claim = { id, ...trade, priority: 0, wait: true, ttlMs, graceMs: 0, runner }
    const attempt: Attempt = { client, claim, sentAt: this.#now, done: false }
    this.#attempts.set(id, attempt)
    this.#log({ type: 'acquire', client: client.name, attempt: id, ...trade })
    this.#later(() => this.#ask(attempt, { op: 'claim', claim }))
  }

  #ask(attempt: Attempt, request: Request): void {
    const status = this.#send(request)
    this.#later(() => {
      if (attempt.done || attempt.client.dead) return
      if (status.state === 'held') this.#granted(attempt, status.fence)
      if (status.state === 'waiting') {
        this.#log({ type: 'queued', attempt: attempt.claim.id })
        this.#in(60, () => this.#renewWaiter(attempt))
      }
      if (status.state === 'absent') this.#refused(attempt)
    })
  }

  #renewWaiter(attempt: Attempt): void {
    if (attempt.done || attempt.client.dead) return
    attempt.sentAt = this.#now
    const { key, id } = attempt.claim
    this.#later(() => this.#ask(attempt, { op: 'renew', key, id, ttlMs }))
  }

  #granted(attempt: Attempt, fence: number): void {
    if (attempt.done || attempt.client.dead) return
    attempt.done = true
    const deadline = attempt.sentAt + ttlMs * 0.9
    if (this.#now >= deadline) {
      this.#refused(attempt)
      return
    }
    const { id } = attempt.claim
    this.#log({ type: 'granted', attempt: id, fence, deadline })
    const fate = this.#random()
    const holdMs = this.#random() * 15
    if (fate < this.#faults) {
      this.#in(holdMs, () => {
        this.#log({ type: 'crash', client: attempt.client.name })
        attempt.client.dead = true
      })
      return
    }
    if (fate < 2 * this.#faults) {
      this.#log({ type: 'pause', client: attempt.client.name })
      this.#in(ttlMs * 2, () => this.#release(attempt))
      return
    }
    if (fate < 0.3) this.#in(holdMs / 2, () => this.#log({ type: 'checked', attempt: id }))
    this.#in(holdMs, () => this.#release(attempt))
  }

  #release(attempt: Attempt): void {
    const { key, id } = attempt.claim
    this.#log({ type: 'release', attempt: id })
    this.#later(() => {
      this.#send({ op: 'release', key, id })
      this.#later(() => this.#log({ type: 'released', attempt: id }))
    })
    this.#in(this.#random() * 10, () => this.#begin(attempt.client))
  }

  #refused(attempt: Attempt): void {
    attempt.done = true
    const { key, id } = attempt.claim
    this.#log({ type: 'refused', attempt: id })
    this.#later(() => this.#send({ op: 'release', key, id }))
    this.#in(this.#random() * 10, () => this.#begin(attempt.client))
  }

  #send(request: Request) {
    const key = request.op === 'claim' ? request.claim.key : request.key
    let state = this.#keys.get(key)
    if (state === undefined) this.#keys.set(key, (state = new KeyState()))
    const verdict = admit(state, request, Math.floor(this.#now))
    state.apply(verdict)
    for (const { record, status } of verdict.notifications) {
      const attempt = this.#attempts.get(record.claim.id)
      if (status.state === 'held' && attempt !== undefined) this.#later(() => this.#granted(attempt, status.fence))
    }
    return verdict.status
  }

  #log(event: HistoryEvent extends infer One ? (One extends HistoryEvent ? Omit<One, 'at'> : never) : never): void {
    this.events.push({ at: this.#now, ...event })
  }

  /** After the time a message takes. */
  #later(action: () => void): void {
    this.#in(0.1 + this.#random() ** 4 * 8, action)
  }

  #in(delayMs: number, action: () => void): void {
    const at = this.#now + delayMs
    const place = this.#agenda.findLastIndex((entry) => entry.at <= at)
    this.#agenda.splice(place + 1, 0, { at, action })
  }
}

import { randomUUID } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Claim, ClaimStatus, ListQuery, LockDriver, Request } from '../../src/core/contract/driver.ts'
import { requestsPerBatchMax } from '../../src/core/client/batch-pieces.ts'
import type { Costs } from './curve.ts'
import { timed, type Scene, type SceneSetup } from './scene.ts'

/** The part of a claim that a dimension chooses. */
export type Wish = Pick<Claim, 'key' | 'mode'> & Partial<Pick<Claim, 'range' | 'limit'>>

/** Claims on one store, made and measured by `driver.send`, one request at a time. */
export interface ClaimsLayout {
  /** How many claims hold, and how many wait for each of them. */
  readonly held: (size: number) => number
  readonly waitingForEach: (size: number) => number
  /** The claim of a holder, by its number. Other sizes have other keys, unless each holder has a key of its own. */
  readonly wish: (size: number, holder: number) => Wish
  /** A claim that such a holder blocks, if it is not the same claim once more. */
  readonly blocked?: (size: number) => Wish
  readonly list: (size: number) => ListQuery
  /** True: a larger size keeps the holders of a smaller. */
  readonly grows?: boolean
}

/** Nothing expires while it is measured. */
const ttlMs = 3_600_000
/** A grant that was notified later than this was not notified. */
const notifiedWithinMs = 5000
const runner = { id: 'growth', incarnation: 'growth', host: 'here', pid: process.pid, client: 'growth' }

/** A holder and the claims that wait for it, in order. */
interface Holding {
  claim: Claim
  readonly queue: Claim[]
}

/** Claims in a store, each operation one request of one `send`. */
export class ClaimsScene implements Scene {
  readonly watchMs = 0
  lost = 0
  readonly #setup: SceneSetup
  readonly #layout: ClaimsLayout
  readonly #driver: LockDriver
  #size = 0
  #holdings: Holding[] = []
  #longestMs = 0
  /** Called with the id of each claim that the driver notifies of. */
  #onNotified: (id: string) => void = () => {}

  constructor(setup: SceneSetup, layout: ClaimsLayout) {
    this.#setup = setup
    this.#layout = layout
    this.#driver = setup.driver()
  }

  async open(): Promise<void> {
    await this.#driver.open()
    this.#driver.listen?.((_key, id) => this.#onNotified(id))
  }

  async fill(size: number): Promise<void> {
    const { held, waitingForEach, wish, grows } = this.#layout
    const isThere = this.#size === size
    this.#size = size
    if (isThere) return
    if (grows !== true) this.#holdings = []
    const before = this.#holdings.length
    await this.#sendAll(held(size) - before, (index) => {
      const claim = claimOf(wish(size, before + index))
      this.#holdings.push({ claim, queue: [] })
      return claim
    })
    const waiting = waitingForEach(size)
    await this.#sendAll((held(size) - before) * waiting, (index) => {
      const holding = this.#holdings.at(before + Math.floor(index / waiting)) as Holding
      const claim = { ...holding.claim, id: randomUUID() }
      holding.queue.push(claim)
      return claim
    })
  }

  rounds(): readonly (() => Promise<Costs>)[] {
    const isAlone = this.#layout.waitingForEach(this.#size) === 0
    const isBlockedByEach = this.#layout.blocked === undefined
    return [
      () => this.#renew(),
      () => this.#wait(),
      () => this.#refuse(),
      () => this.#list(),
      ...(isAlone ? [() => this.#swap()] : []),
      ...(isBlockedByEach ? [() => this.#handOver()] : []),
    ]
  }

  longestAnswerMs(): number {
    const longestMs = this.#longestMs
    this.#longestMs = 0
    return longestMs
  }

  close(): Promise<void> {
    return this.#driver.close()
  }

  async #renew(): Promise<Costs> {
    const { claim } = this.#any()
    const renew = await timed(async () => {
      if ((await this.#ask(renewing(claim))).state !== 'held') this.lost += 1
    })
    return { renew }
  }

  /** A claim comes, asks how it stands, and gives up. */
  async #wait(): Promise<Costs> {
    const waiter = this.#blocked()
    const queue = await timed(() => this.#ask(claiming(waiter), 'waiting'))
    const poll = await timed(() => this.#ask(renewing(waiter), 'waiting'))
    const leave = await timed(() => this.#ask(releasing(waiter), 'absent'))
    return { queue, poll, leave }
  }

  async #refuse(): Promise<Costs> {
    const claim = { ...this.#blocked(), wait: false }
    return { refuse: await timed(() => this.#ask(claiming(claim), 'absent')) }
  }

  async #list(): Promise<Costs> {
    const query = this.#layout.list(this.#size)
    return { list: await timed(() => this.#inTime(this.#driver.list(query))) }
  }

  /** A holder leaves, and a claim like it comes. */
  async #swap(): Promise<Costs> {
    const holding = this.#any()
    const { claim: gone } = holding
    holding.claim = { ...gone, id: randomUUID() }
    const release = await timed(() => this.#ask(releasing(gone), 'absent'))
    const acquire = await timed(() => this.#ask(claiming(holding.claim), 'held'))
    return { acquire, release }
  }

  /** A holder leaves while claims wait for its place: until the next of them is notified, where the store notifies. */
  async #handOver(): Promise<Costs> {
    const holding = this.#any()
    const { claim: gone, queue } = holding
    const last = { ...gone, id: randomUUID() }
    await this.#ask(claiming(last), 'waiting')
    queue.push(last)
    const next = queue.shift() as Claim
    holding.claim = next
    const handOver = await timed(async () => {
      const notified = this.#driver.supports.push ? this.#notified(next.id) : undefined
      await this.#ask(releasing(gone), 'absent')
      await notified
    })
    await this.#ask(renewing(next), 'held')
    return { 'hand-over': handOver }
  }

  #notified(id: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error('A grant was not notified.')), notifiedWithinMs)
      this.#onNotified = (notified) => {
        if (notified !== id) return
        clearTimeout(late)
        resolve()
      }
    })
  }

  #any(): Holding {
    return this.#holdings.at(Math.random() * this.#holdings.length) as Holding
  }

  /** A claim that a holder is in the way of. */
  #blocked(): Claim {
    const { blocked } = this.#layout
    return blocked === undefined ? { ...this.#any().claim, id: randomUUID() } : claimOf(blocked(this.#size))
  }

  async #ask(request: Request, expected?: ClaimStatus['state']): Promise<ClaimStatus> {
    const [status] = await this.#inTime(this.#driver.send([request]))
    if (status === undefined) throw new Error('The driver gave no answer.')
    if (expected !== undefined && status.state !== expected) {
      throw new Error(`Expected ${expected} of ${request.op}: ${describe(status)}`)
    }
    return status
  }

  /** In batches as large as a client's, each made just before it is sent. */
  async #sendAll(count: number, nextClaim: (index: number) => Claim): Promise<void> {
    for (let from = 0; from < count; from += requestsPerBatchMax) {
      this.#setup.check()
      const length = Math.min(requestsPerBatchMax, count - from)
      const batch = Array.from({ length }, (_, index) => claiming(nextClaim(from + index)))
      for (const status of await this.#inTime(this.#driver.send(batch))) {
        if (status.state !== 'held' && status.state !== 'waiting') throw new Error(`Filling: ${describe(status)}`)
      }
      await nextTurn()
    }
  }

  async #inTime<Answer>(answer: Promise<Answer>): Promise<Answer> {
    const startedAt = performance.now()
    try {
      return await answer
    } finally {
      this.#longestMs = Math.max(this.#longestMs, performance.now() - startedAt)
    }
  }
}

function claimOf(wish: Wish): Claim {
  return { id: randomUUID(), priority: 0, wait: true, ttlMs, graceMs: 0, runner, ...wish }
}

function claiming(claim: Claim): Request {
  return { op: 'claim', claim }
}

function renewing({ key, id }: Claim): Request {
  return { op: 'renew', key, id, ttlMs }
}

function releasing({ key, id }: Claim): Request {
  return { op: 'release', key, id }
}

function describe(status: ClaimStatus): string {
  return status.state === 'unknown' ? `unknown: ${String(status.error)}` : JSON.stringify(status)
}

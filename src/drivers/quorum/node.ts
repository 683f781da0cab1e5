import type { Backoff } from '../../core/time/backoff.ts'
import { Batcher } from '../../core/client/batcher.ts'
import type { KeyPage, ListedKey, ListQuery, LockDriver, Request, ClaimStatus } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { LeaseholdError, plainMessageOf } from '../../core/errors.ts'
import { limitError, limitFault, fenceFloorMaxOf } from '../../core/contract/limits.ts'
import { endsWithConnection, requireLeaseLifetime } from '../../core/contract/supports.ts'
import { Reconnector } from '../kit/reconnector.ts'
import { Uncounted, Voting } from './voting.ts'

/** Takes the answer to one request. */
export type Answered = (status: ClaimStatus) => void

const openingRetry: Backoff = { attempts: Infinity, minMs: 100, maxMs: 5000, factor: 2, jitter: 0.2 }

/**
 * One store of a quorum. As from a client, requests for one key reach it one after the other, and those of one turn together. While a
 * request has timed out, the node is asked nothing but releases; its answers count only once it can have forgotten nothing.
 */
export class Node {
  readonly name: string
  readonly driver: LockDriver
  readonly #environment: Environment
  readonly #batcher: Batcher
  readonly #voting: Voting
  #state: 'new' | 'open' | 'closed' = 'new'
  #silent = false
  /** Requests under way. */
  #unanswered = 0
  /** Why the node could not be opened the last time. */
  #trouble: unknown
  readonly #reconnector: Reconnector

  constructor(driver: LockDriver, position: number, environment: Environment, votesAfterMs: number) {
    this.name = `node ${position} (${driver.name})`
    this.driver = driver
    this.#environment = environment
    this.#batcher = new Batcher(driver, environment)
    this.#voting = new Voting(driver, environment, votesAfterMs)
    this.#reconnector = new Reconnector({
      backoff: openingRetry,
      environment,
      // A failure schedules the next attempt.
      attempt: () => void this.open().catch(() => {}),
    })
  }

  /** See {@link Voting.fenceFloor}. */
  get fenceFloor(): number {
    return this.#voting.fenceFloor
  }

  /** Refuses a store whose locks end with a connection: the quorum's connection is not the holder's. */
  requireLeases(): void {
    requireLeaseLifetime({ name: this.name, supports: this.driver.supports }, 'A quorum')
  }

  /**
   * Settles with the first attempt. If that failed, further attempts follow in the background until the node is closed. UNSUPPORTED: a
   * quorum cannot use the store, and sends it nothing until an attempt finds that it can.
   */
  async open(): Promise<void> {
    if (this.#state === 'open') return
    try {
      await this.driver.open()
      this.requireLeases()
      await this.#voting.requireAge(this.name)
    } catch (error) {
      this.#trouble = error
      this.#reconnector.failed()
      throw error
    }
    if (this.#state === 'closed') return
    this.#state = 'open'
  }

  async close(): Promise<void> {
    this.#state = 'closed'
    this.#reconnector.close()
    this.#batcher.close()
    await this.driver.close()
  }

  /** Sends a request. False: the request was not sent, and `answered` has been called already. */
  ask(request: Request, answered: Answered): boolean {
    const obstacle = this.#obstacle(request)
    if (obstacle !== undefined) {
      answered({ state: 'unknown', error: obstacle })
      return false
    }
    this.#unanswered += 1
    this.#batcher.submit(request, { answered: (_, status) => this.#onAnswer(status, answered) })
    return true
  }

  /** As `ask`, but an answer that a store that restarted empty could give does not count: see {@link Voting}. */
  vote(request: Request, answered: Answered): boolean {
    if (request.op === 'claim' && this.#voting.waitMs > 0) {
      answered(this.#voting.uncounted(this.name))
      return false
    }
    const askedAt = this.#environment.now()
    return this.ask(request, (status) => {
      const isDoubtful = status.state === (request.op === 'claim' ? 'held' : 'absent')
      if (isDoubtful) void this.#voteOn(status, askedAt, answered)
      else answered(status)
    })
  }

  /** All that the node lists, page after page, for at most `withinMs`. */
  async list(query: ListQuery, withinMs: number): Promise<KeyPage> {
    const obstacle = this.#obstacle(undefined)
    if (obstacle !== undefined) throw obstacle
    const until = this.#environment.now() + withinMs
    const keys: ListedKey[] = []
    let page: KeyPage | undefined
    do {
      // The caller has stopped waiting: a store with very many keys, or without an end, must not be read on.
      if (this.#environment.now() > until) throw this.#unfit(`It has listed ${keys.length} keys so far.`)
      const after = page?.next
      page = await this.driver.list({ ...query, limit: keysPerPage, ...(after !== undefined && { after }) })
      keys.push(...page.keys)
    } while (page.next !== undefined)
    return { now: page.now, keys }
  }

  /**
   * A call to the node timed out: the node is asked nothing more until it answers a request. If no request is under way, only a listing
   * or the data's age was slow, and no answer could end the silence: then the node does not count as silent.
   */
  fellSilent(): void {
    this.#silent = this.#unanswered > 0
  }

  async #voteOn(status: ClaimStatus, askedAt: number, answered: Answered): Promise<void> {
    if (status.state === 'held' && status.fence > fenceFloorMaxOf(this.driver.supports)) {
      const message = `${this.name} gave fence ${status.fence}, to which no other can be lifted. Check its clock.`
      return answered({ state: 'unknown', error: new Uncounted(message, status) })
    }
    const counts = (await this.#voting.counts(askedAt)) && !endsWithConnection(this.driver.supports)
    answered(counts ? status : this.#voting.uncounted(this.name, status))
  }

  #onAnswer(status: ClaimStatus, answered: Answered): void {
    this.#unanswered -= 1
    this.#silent = false
    if (status.state !== 'unknown') return answered(status)
    answered({ state: 'unknown', error: this.#named(status.error) })
  }

  /** The error of the node's driver, with the node's name. */
  #named(error: unknown): LeaseholdError {
    const reason = error instanceof LeaseholdError ? error.reason : undefined
    return new LeaseholdError('UNAVAILABLE', `${this.name}: ${plainMessageOf(error)}`, {
      cause: error,
      reason: reason ?? 'network',
    })
  }

  /** Why the node cannot be asked. A silent node still gets releases: they must arrive after the requests it has not answered. */
  #obstacle(request: Request | undefined): LeaseholdError | undefined {
    if (this.#state !== 'open') {
      const why = this.#trouble === undefined ? '' : ` ${plainMessageOf(this.#trouble)}`
      return new LeaseholdError('UNAVAILABLE', `${this.name} is not connected.${why}`, { reason: 'network' })
    }
    const { supports } = this.driver
    // A server with narrower limits may have replaced the one that was opened.
    if (endsWithConnection(supports)) return this.#unfit('Its locks end with a connection.')
    const fault = request && limitFault(request, supports)
    if (fault !== undefined) return this.#unfit(plainMessageOf(limitError(fault)))
    if (!this.#silent || request?.op === 'release') return undefined
    return new LeaseholdError('UNAVAILABLE', `${this.name} does not answer.`, { reason: 'no-answer' })
  }

  #unfit(why: string): LeaseholdError {
    return new LeaseholdError('UNAVAILABLE', `${this.name}: ${why}`, { reason: 'store' })
  }
}

const keysPerPage = 1000

import { pauseMs, type Backoff } from '../../core/time/backoff.ts'
import { Batcher } from '../../core/client/batcher.ts'
import type { KeyPage, ListedKey, ListQuery, LockDriver, Request, ClaimStatus } from '../../core/contract/driver.ts'
import type { Environment, Timer } from '../../core/time/environment.ts'
import { LeaseholdError, plainMessageOf } from '../../core/errors.ts'
import { limitError, limitFault, fenceFloorMaxOf } from '../../core/contract/limits.ts'
import { endsWithConnection, requireLeaseLifetime } from '../../core/contract/supports.ts'
import { Uncounted, Voting } from './voting.ts'

export type Answered = (status: ClaimStatus) => void

const openingRetry: Backoff = { attempts: Infinity, minMs: 100, maxMs: 5000, factor: 2, jitter: 0.2 }

/**
 * One store of a quorum. Requests for one key reach it one after the other, those of one turn together, like a client's
 * own; it is left alone while it is silent, and its word counts only once it can have forgotten nothing.
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
  #failures = 0
  /** Why it could not be opened the last time. */
  #trouble: unknown
  #retry: Timer | undefined

  constructor(driver: LockDriver, place: number, environment: Environment, votesAfterMs: number) {
    this.name = `node ${place} (${driver.name})`
    this.driver = driver
    this.#environment = environment
    this.#batcher = new Batcher(driver, environment)
    this.#voting = new Voting(driver, environment, votesAfterMs)
  }

  /** See {@link Voting.fenceFloor}. */
  get fenceFloor(): number {
    return this.#voting.fenceFloor
  }

  /** Refuses a store whose locks end with the connection of whoever asked this quorum's client for them. */
  requireLeases(): void {
    requireLeaseLifetime({ name: this.name, supports: this.driver.supports }, 'A quorum')
  }

  /**
   * Settles with the first try. If that failed, further ones follow in the background until the node is closed. UNSUPPORTED:
   * the store is none that a quorum can have for a node, and is asked nothing while it is not.
   */
  async open(): Promise<void> {
    if (this.#state === 'open') return
    try {
      await this.driver.open()
      this.requireLeases()
      await this.#voting.requireAge(this.name)
    } catch (error) {
      this.#trouble = error
      this.#openLater()
      throw error
    }
    if (this.#state === 'closed') return
    this.#state = 'open'
  }

  async close(): Promise<void> {
    this.#state = 'closed'
    this.#retry?.cancel()
    this.#batcher.close()
    await this.driver.close()
  }

  /** Sends a request. False: it was not sent, and `answered` has been told so already. */
  ask(request: Request, answered: Answered): boolean {
    const obstacle = this.#obstacle(request)
    if (obstacle !== undefined) {
      answered({ state: 'unknown', error: obstacle })
      return false
    }
    this.#unanswered += 1
    this.#batcher.submit(request, { answered: (_, status) => this.#onNotification(status, answered) })
    return true
  }

  /** As `ask`; but what a store that restarted empty would say does not count: see `uncounted.ts`. */
  vote(request: Request, answered: Answered): boolean {
    if (request.op === 'claim' && this.#voting.waitMs > 0) {
      answered(this.#voting.instead(this.name))
      return false
    }
    const askedAt = this.#environment.now()
    return this.ask(request, (status) => {
      const doubtful = status.state === (request.op === 'claim' ? 'held' : 'absent')
      if (doubtful) void this.#voteOn(status, askedAt, answered)
      else answered(status)
    })
  }

  /** All that the node lists, page after page, for as long as somebody waits for it. */
  async list(query: ListQuery, withinMs: number): Promise<KeyPage> {
    const obstacle = this.#obstacle(undefined)
    if (obstacle !== undefined) throw obstacle
    const until = this.#environment.now() + withinMs
    const keys: ListedKey[] = []
    let page: KeyPage | undefined
    do {
      // A store with very many keys, or one that never comes to an end, must not be read on and on for nobody.
      if (this.#environment.now() > until) throw this.#unfit(`It has listed ${keys.length} keys so far.`)
      const after = page?.next
      page = await this.driver.list({ ...query, limit: keysPerPage, ...(after !== undefined && { after }) })
      keys.push(...page.keys)
    } while (page.next !== undefined)
    return { now: page.now, keys }
  }

  /**
   * The node has not answered in time: it is asked nothing more until it has. Unless it answers requests, and was only slow to
   * list what it has or to say how old that is: no answer would be on its way that could end its silence.
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
    answered(counts ? status : this.#voting.instead(this.name, status))
  }

  #onNotification(status: ClaimStatus, answered: Answered): void {
    this.#unanswered -= 1
    this.#silent = false
    if (status.state !== 'unknown') return answered(status)
    answered({ state: 'unknown', error: this.#named(status.error) })
  }

  /** The error of the node's driver, saying which node. */
  #named(error: unknown): LeaseholdError {
    const reason = error instanceof LeaseholdError ? error.reason : undefined
    return new LeaseholdError('UNAVAILABLE', `${this.name}: ${plainMessageOf(error)}`, {
      cause: error,
      reason: reason ?? 'network',
    })
  }

  /** Why the node cannot be asked. Releases wait for a silent node: they must arrive after what it has not answered. */
  #obstacle(request: Request | undefined): LeaseholdError | undefined {
    if (this.#state !== 'open') {
      const why = this.#trouble === undefined ? '' : ` ${plainMessageOf(this.#trouble)}`
      return new LeaseholdError('UNAVAILABLE', `${this.name} is not connected.${why}`, { reason: 'network' })
    }
    const { supports } = this.driver
    // Another server, with narrower limits, may have taken the place of the one that was opened.
    if (endsWithConnection(supports)) return this.#unfit('Its locks end with a connection.')
    const fault = request && limitFault(request, supports)
    if (fault !== undefined) return this.#unfit(plainMessageOf(limitError(fault)))
    if (!this.#silent || request?.op === 'release') return undefined
    return new LeaseholdError('UNAVAILABLE', `${this.name} does not answer.`, { reason: 'no-answer' })
  }

  #unfit(why: string): LeaseholdError {
    return new LeaseholdError('UNAVAILABLE', `${this.name}: ${why}`, { reason: 'store' })
  }

  #openLater(): void {
    if (this.#state === 'closed') return
    this.#failures += 1
    const delayMs = pauseMs(openingRetry, this.#failures, this.#environment.random())
    this.#retry = this.#environment.timer(delayMs, () => {
      // The next failure sets the next timer.
      this.open().catch(() => {})
    })
  }
}

const keysPerPage = 1000

import { unsupported, LeaseholdError, plainMessageOf } from '../../core/errors.ts'
/**
 * Locks over several stores that know nothing of each other: held while a majority of them holds.
 *
 * This is Redlock, with fences that only grow (`quorum/fence-agreement.ts`) and nodes that do not vote after they may
 * have forgotten something (`quorum/voting.ts`). Exclusive locks only: what nodes cannot decide alone is refused.
 */
import { claimIdOf, keyOf } from '../../core/contract/requests.ts'
import type { KeyPage, ListQuery, LockDriver, Request, ClaimStatus, Supports } from '../../core/contract/driver.ts'
import { durationMs, positiveMs, type Duration } from '../../core/time/duration.ts'
import { systemEnvironment, type Environment } from '../../core/time/environment.ts'
import { blockingFault, limitError, withinLimits } from '../../core/contract/limits.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { Lifecycle } from '../kit/lifecycle.ts'
import { Quorum } from './quorum.ts'
import { claimOn } from './claiming.ts'
import { evictOn, releaseOn } from './ending.ts'
import { mayBeLifted, mergedPage } from './listing.ts'
import { Node } from './node.ts'
import { renewOn } from './renewing.ts'
import { supportsOf } from './supports.ts'

/** The options of `quorum`. */
export interface QuorumOptions {
  /**
   * A node votes once it has kept its data for this long, and no ttl may be longer: a node that came back empty must not
   * give away what it forgot. The same for every client. 0 is dangerous: every node votes at once, and a single one that
   * loses its data lets a second holder in. It is for tests, and for stores of which you know that they never do.
   *
   * @default '1m'
   */
  readonly votesAfter?: Duration | undefined
  /**
   * How long a node may take to answer before the others decide alone; half the ttl at most.
   *
   * @default a tenth of the ttl, 50 ms to 1 s
   */
  readonly answerWithin?: Duration | undefined
  /**
   * By how much the clocks of nodes and clients may run at different rates, 0 to 0.5, beside the client's own 5 %.
   *
   * @default 0.01
   */
  readonly drift?: number | undefined
  /** Time, timers and chance, for simulators and tests. */
  readonly environment?: Environment | undefined
}

const quorumNames: OptionNames<QuorumOptions> = {
  votesAfter: true,
  answerWithin: true,
  drift: true,
  environment: true,
}

const votesAfterDefaultMs = 60_000
const driftDefault = 0.01
const listWithinMs = 5000
const closeWithinMs = 1000
const readsMax = 3

/**
 * Locks held on a majority of an odd number of stores, three or more. Closing it closes them.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { quorum } from 'leasehold/quorum'
 * import { redis } from 'leasehold/redis'
 *
 * const nodes = ['redis://10.0.0.1', 'redis://10.0.0.2', 'redis://10.0.0.3'].map((url) => redis(url))
 * await using locks = await createLocks({ driver: quorum(nodes) })
 * ```
 */
export function quorum(drivers: readonly LockDriver[], options: QuorumOptions = {}): LockDriver {
  checkOptions(options, quorumNames, 'quorum')
  return new QuorumDriver(drivers, options)
}

class QuorumDriver implements LockDriver {
  readonly name = 'quorum'
  readonly #quorum: Quorum
  readonly #votesAfterMs: number
  readonly #drivers: readonly LockDriver[]
  /** What the nodes supported when `supports` was last read, and what the quorum supports by that. */
  #known: readonly Supports[] = []
  #supports: Supports | undefined
  readonly #lifecycle = new Lifecycle('This quorum', () => this.#openMajority())
  #closing: Promise<void> | undefined

  constructor(drivers: readonly LockDriver[], options: QuorumOptions) {
    if (drivers.length < 3 || drivers.length % 2 === 0 || new Set(drivers).size < drivers.length) {
      throw new LeaseholdError('INVALID', 'A quorum needs 3, 5 or 7 different stores: an even one is no safer.')
    }
    const stores = drivers.flatMap(({ store }) => (store === undefined ? [] : [store]))
    if (new Set(stores).size < stores.length) {
      throw new LeaseholdError('INVALID', 'Two drivers of a quorum are of one store, which would vote twice.')
    }
    const { votesAfter = votesAfterDefaultMs, answerWithin, drift = driftDefault } = options
    if (!(drift >= 0 && drift <= 0.5)) throw new LeaseholdError('INVALID', `drift is ${drift}. Use 0 to 0.5.`)
    const { environment = systemEnvironment() } = options
    const votesAfterMs = durationMs(votesAfter, 'votesAfter')
    this.#votesAfterMs = votesAfterMs
    this.#drivers = drivers
    this.#quorum = new Quorum(
      drivers.map((driver, index) => new Node(driver, index + 1, environment, votesAfterMs)),
      environment,
      {
        driftRate: drift,
        answerWithinMs: answerWithin === undefined ? undefined : positiveMs(answerWithin, 'answerWithin'),
      },
    )
  }

  /** As of now: some nodes know what their store supports only once they are open, and that may change when they reconnect. */
  get supports(): Supports {
    const drivers = this.#drivers
    if (this.#supports === undefined || drivers.some(({ supports }, index) => supports !== this.#known[index])) {
      this.#known = drivers.map(({ supports }) => supports)
      this.#supports = supportsOf(this.#known, this.#votesAfterMs)
    }
    return this.#supports
  }

  /**
   * Resolves once a majority is open; the other nodes are opened in the background. Rejects, and closes the quorum, if too few can be
   * opened, or if by then a store turns out to be one that no quorum can use.
   */
  async open(): Promise<void> {
    try {
      await this.#lifecycle.opened()
    } catch (error) {
      // Nobody will close a driver that did not open.
      await this.close()
      throw error
    }
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  async #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    this.#lifecycle.refuseIfShut()
    const inTurn = keysInTurn(requests)
    const last = new Map<string, Promise<ClaimStatus>>()
    return Promise.all(
      requests.map((request) => {
        const key = keyOf(request)
        if (!inTurn.has(key)) return this.#carryOut(request)
        const answer = (last.get(key) ?? Promise.resolve()).then(() => this.#carryOut(request))
        last.set(key, answer)
        return answer
      }),
    )
  }

  /** Each page reads all that the nodes list: the stores of a quorum may divide their keys into pages differently. */
  async list(query: ListQuery): Promise<KeyPage> {
    this.#lifecycle.refuseIfShut()
    const { environment, majority, nodes } = this.#quorum
    const { key, prefix, known } = query
    const wanted = { ...(key !== undefined && { key }), ...(prefix !== undefined && { prefix }), known }
    let pages = await this.#quorum.read(wanted, listWithinMs)
    // A write-back under way has arrived by the second or third read. A fence that a late node gave stays different.
    for (let reads = 1; reads < readsMax && mayBeLifted(pages, query, majority); reads += 1) {
      pages = await this.#quorum.read(wanted, listWithinMs)
    }
    return mergedPage(pages, query, Math.floor(environment.now()), nodes.length)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  #carryOut(request: Request): Promise<ClaimStatus> {
    switch (request.op) {
      case 'claim':
        return claimOn(this.#quorum, request.claim)
      case 'renew': {
        // The grace of a claim that another process was granted is not known here.
        const graceMs = this.#quorum.grants.get(request)?.claim.graceMs ?? 0
        const fault = blockingFault(request.ttlMs, graceMs, this.supports)
        if (fault !== undefined) return Promise.resolve({ state: 'unknown', error: limitError(fault) })
        return renewOn(this.#quorum, request)
      }
      case 'release':
        return releaseOn(this.#quorum, request)
      case 'withdraw':
        return Promise.resolve({
          state: 'unknown',
          error: unsupported('conversions', 'A quorum', 'docs/stores/quorum.md says why.'),
        })
      case 'evict':
        return evictOn(this.#quorum, request)
    }
  }

  async #openMajority(): Promise<true> {
    const { nodes, majority } = this.#quorum
    // Refuse what is known without opening before anything is connected.
    for (const node of nodes) node.requireLeases()
    await new Promise<void>((resolve, reject) => {
      let opened = 0
      const complaints: string[] = []
      for (const node of nodes) {
        node.open().then(
          () => (opened += 1) === majority && resolve(),
          (error: unknown) => {
            if (error instanceof LeaseholdError && error.code === 'UNSUPPORTED') reject(error)
            complaints.push(`${node.name}: ${plainMessageOf(error)}`)
            if (complaints.length > nodes.length - majority) reject(notOpened(nodes.length, complaints, error))
          },
        )
      }
    })
    return true
  }

  async #close(): Promise<void> {
    this.#lifecycle.shut()
    const { cleanup, nodes, fanOut } = this.#quorum
    await cleanup.stop(closeWithinMs)
    fanOut.close()
    await Promise.allSettled(nodes.map((node) => node.close()))
  }
}

/**
 * Keys whose requests have to wait for each other's answers: those with an eviction, which takes two steps, and those
 * with two requests for one claim. All else goes out at once, and each node keeps the order.
 */
function keysInTurn(requests: readonly Request[]): ReadonlySet<string> {
  const keys = new Set<string>()
  const ids = new Set<string>()
  for (const request of requests) {
    const id = claimIdOf(request)
    if (id === undefined || ids.has(id)) keys.add(keyOf(request))
    else ids.add(id)
  }
  return keys
}

function notOpened(nodes: number, complaints: readonly string[], cause: unknown): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', `Too few of ${nodes} nodes could be opened. ${complaints.join(' ')}`, {
    reason: 'no-majority',
    cause,
  })
}

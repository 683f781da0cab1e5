import type { LockDriver, Standing } from '../../core/driver.ts'
import { formatDuration } from '../../core/duration.ts'
import type { Environment } from '../../core/environment.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { fenceFloor } from '../../core/fence.ts'

/** The word of a node that may have forgotten something: not to be counted, but worth knowing. */
export class NotVoting extends LeaseholdError {
  /** Absent: it was not even asked. */
  readonly said: Standing | undefined

  constructor(nodeName: string, waitMs: number, said?: Standing) {
    const wait = formatDuration(waitMs)
    super('UNAVAILABLE', `${nodeName} may have restarted without its data. It votes again in ${wait}.`, {
      reason: 'not-voting',
      retryAfterMs: waitMs,
    })
    this.said = said
  }
}

/**
 * Whether a node may vote. A store that came back empty has forgotten who holds what: until every lease it may have
 * forgotten is over, its grants and its "never heard of it" count for nothing.
 */
export class Voting {
  readonly #driver: LockDriver
  readonly #environment: Environment
  readonly #votesAfterMs: number
  /** Since when, as far as is known, the node has kept what it was told. */
  #upSince: number | undefined
  #asking: Promise<number> | undefined

  constructor(driver: LockDriver, environment: Environment, votesAfterMs: number) {
    this.#driver = driver
    this.#environment = environment
    this.#votesAfterMs = votesAfterMs
  }

  /** How long until the node votes, by what is known of it without asking. */
  get waitMs(): number {
    if (this.#votesAfterMs === 0 || this.#upSince === undefined) return 0
    return Math.max(0, this.#upSince + this.#votesAfterMs - this.#environment.now())
  }

  /**
   * The least fence of a grant in which the node has a part: what the wall clock said when it began to vote. Fences it may
   * have forgotten were minted before it restarted, so they are lower, whatever its own counter begins with.
   */
  get fenceFloor(): number {
    if (this.#votesAfterMs === 0 || this.#upSince === undefined || this.#upSince === -Infinity) return 0
    const uptimeMs = this.#environment.now() - this.#upSince
    return fenceFloor(this.#environment.wall() - uptimeMs + this.#votesAfterMs)
  }

  /** The node was reached, or reached again after a failure: one that cannot tell its uptime may have restarted. */
  seen(): void {
    if (this.#driver.uptimeMs === undefined) this.#upSince ??= this.#environment.now()
  }

  /** A request to the node failed. */
  failed(): void {
    if (this.#driver.uptimeMs === undefined) this.#upSince = this.#environment.now()
  }

  /** Whether an answer to what was asked at `askedAt`, which has just come, counts. */
  async counts(askedAt: number): Promise<boolean> {
    if (this.#votesAfterMs === 0) return true
    await this.#readUptime()
    return this.#upSince !== undefined && askedAt - this.#upSince >= this.#votesAfterMs
  }

  /** Asks after the answer, so that a restart before it cannot be missed; one question for all answers of a batch. */
  async #readUptime(): Promise<void> {
    if (this.#driver.uptimeMs === undefined) return
    try {
      if (this.#asking === undefined) {
        this.#asking = this.#driver.uptimeMs()
        queueMicrotask(() => {
          this.#asking = undefined
        })
      }
      const uptimeMs = await this.#asking
      this.#upSince = this.#environment.now() - uptimeMs
    } catch {
      this.#upSince = undefined
    }
  }
}

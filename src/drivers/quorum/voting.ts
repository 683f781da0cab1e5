import type { LockDriver, Standing } from '../../core/driver.ts'
import { formatDuration } from '../../core/time/duration.ts'
import type { Environment } from '../../core/time/environment.ts'
import { messageOf } from '../../core/errors.ts'
import { fenceFloor } from '../../core/fence.ts'
import { Uncounted } from './uncounted.ts'

/** Uptimes are told in whole seconds by some: starts closer than this are one and the same. */
const sameStartMs = 1000

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
  /** The start for which `#fenceFloor` was reckoned. */
  #floorOf = -Infinity
  #fenceFloor = 0
  #asking: Promise<number> | undefined
  /** Why it could not be asked for its uptime. */
  #trouble: unknown

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
   * The least fence of a grant in which the node has a part: what the wall clock said when it began to vote. Fences
   * it may have forgotten were minted before it restarted, so they are lower, whatever its own counter begins with.
   */
  get fenceFloor(): number {
    return this.#fenceFloor
  }

  /** The node was reached, or reached again after a failure: one that cannot tell its uptime may have restarted. */
  seen(): void {
    if (this.#driver.dataAgeMs === undefined && this.#upSince === undefined) this.#startedAt(this.#environment.now())
  }

  /** A request to the node failed. */
  failed(): void {
    if (this.#driver.dataAgeMs === undefined) this.#startedAt(this.#environment.now())
  }

  /** Whether an answer to what was asked at `askedAt`, which has just come, counts. */
  async counts(askedAt: number): Promise<boolean> {
    if (this.#votesAfterMs === 0) return true
    await this.#readUptime()
    return this.#upSince !== undefined && askedAt - this.#upSince >= this.#votesAfterMs
  }

  /** What stands for the node's word while it does not vote. */
  instead(nodeName: string, said?: Standing): Standing {
    const { waitMs } = this
    const message =
      this.#trouble === undefined
        ? `${nodeName} may have restarted without its data. It votes again in ${formatDuration(waitMs)}.`
        : `${nodeName} does not tell its uptime: ${messageOf(this.#trouble)}`
    return { state: 'unknown', error: new Uncounted(message, said, waitMs) }
  }

  /** Asks after the answer, so that a restart before it cannot be missed; one question for all answers of a batch. */
  async #readUptime(): Promise<void> {
    if (this.#driver.dataAgeMs === undefined) return
    try {
      if (this.#asking === undefined) {
        this.#asking = this.#driver.dataAgeMs()
        queueMicrotask(() => {
          this.#asking = undefined
        })
      }
      const dataAgeMs = await this.#asking
      this.#startedAt(this.#environment.now() - dataAgeMs)
      this.#trouble = undefined
    } catch (error) {
      this.#upSince = undefined
      this.#trouble = error
    }
  }

  #startedAt(upSince: number): void {
    const dataAgeMs = this.#environment.now() - upSince
    // Two readings of one start differ by a little, and a floor that crept up would cost a write-back each time.
    if (this.#votesAfterMs > 0 && upSince - this.#floorOf >= sameStartMs) {
      this.#floorOf = upSince
      this.#fenceFloor = fenceFloor(this.#environment.wall() - dataAgeMs + this.#votesAfterMs)
    }
    this.#upSince = upSince
  }
}

import type { LockDriver, ClaimStatus } from '../../core/contract/driver.ts'
import { formatDuration } from '../../core/time/duration.ts'
import type { Environment } from '../../core/time/environment.ts'
import { LeaseholdError, plainMessageOf } from '../../core/errors.ts'
import { fenceFloor } from '../../core/rule/fence.ts'

/** Some stores give their age in whole seconds: births closer together than this are the same. */
const sameBirthMs = 1000

/**
 * Whether a node may vote. A store that came back empty has forgotten who holds what: until every lease it may have forgotten is
 * over, neither its grants nor its `absent` count.
 */
export class Voting {
  readonly #driver: LockDriver
  readonly #environment: Environment
  readonly #votesAfterMs: number
  /** Since when the node has kept its data, as far as is known. */
  #keptSince: number | undefined
  /** The latest birth that the node has reported: if it seems older later, a clock was set forward. */
  #bornLast = -Infinity
  /** The birth from which `#fenceFloor` was computed. */
  #floorOf = -Infinity
  #fenceFloor = 0
  #asking: Promise<number> | undefined
  /** Why the age is not known. */
  #trouble: unknown

  constructor(driver: LockDriver, environment: Environment, votesAfterMs: number) {
    this.#driver = driver
    this.#environment = environment
    this.#votesAfterMs = votesAfterMs
  }

  /** How long until the node votes, by what is known of it without asking. */
  get waitMs(): number {
    if (this.#votesAfterMs === 0 || this.#keptSince === undefined) return 0
    return Math.max(0, this.#keptSince + this.#votesAfterMs - this.#environment.now())
  }

  /**
   * The least fence of a grant for which the node votes: the wall clock's time when it began to vote. Fences it may have forgotten
   * were minted before it came back empty, so they are lower, whatever its own counter begins with.
   */
  get fenceFloor(): number {
    return this.#fenceFloor
  }

  /**
   * Refuses a node that cannot say since when it has kept its data: it could come back empty between two requests without anybody
   * noticing. A node that claims to have kept its data for ever is refused too, as no store can know that.
   */
  async requireAge(nodeName: string): Promise<void> {
    if (this.#votesAfterMs === 0) return
    await this.#readAge()
    const trouble = this.#trouble
    if (trouble === undefined) return
    if (!(trouble instanceof LeaseholdError && trouble.code === 'UNSUPPORTED')) throw trouble
    throw new LeaseholdError(
      'UNSUPPORTED',
      `A quorum cannot use ${nodeName}: ${plainMessageOf(trouble)} If it came back empty, it would give away what is ` +
        'held. Leave it out; docs/stores/quorum.md says when votesAfter: 0 is right.',
      { cause: trouble },
    )
  }

  /** Whether an answer that has just come, to a request sent at `askedAt`, counts. */
  async counts(askedAt: number): Promise<boolean> {
    if (this.#votesAfterMs === 0) return true
    await this.#readAge()
    // By the time of the request: the node may have answered at once, and the answer taken long to arrive.
    return this.#keptSince !== undefined && askedAt - this.#keptSince >= this.#votesAfterMs
  }

  /** The status that replaces the node's answer while it does not vote. */
  uncounted(nodeName: string, said?: ClaimStatus): ClaimStatus {
    const { waitMs } = this
    const message =
      this.#trouble === undefined
        ? `${nodeName} is new, or came back without its data. It votes in ${formatDuration(waitMs)}.`
        : `${nodeName} does not say for how long it has kept its data: ${plainMessageOf(this.#trouble)}`
    return { state: 'unknown', error: new Uncounted(message, said, waitMs) }
  }

  /** Reads the age after the answer, so that no restart before it is missed; once for all answers of a batch. */
  async #readAge(): Promise<void> {
    try {
      this.#bornAt(this.#environment.now() - checkedAge(await this.#askAge()))
      this.#trouble = undefined
    } catch (error) {
      this.#keptSince = undefined
      this.#trouble = error
    }
  }

  #askAge(): Promise<number> {
    if (this.#asking !== undefined) return this.#asking
    this.#asking = this.#driver.dataAgeMs?.() ?? Promise.resolve(Number.NaN)
    queueMicrotask(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  #bornAt(keptSince: number): void {
    const dataAgeMs = this.#environment.now() - keptSince
    // Two readings of one birth differ a little, and a floor that crept up would cost a write-back each time.
    if (this.#votesAfterMs > 0 && keptSince - this.#floorOf >= sameBirthMs) {
      this.#floorOf = keptSince
      this.#fenceFloor = fenceFloor(this.#environment.wall() - dataAgeMs + this.#votesAfterMs)
    }
    this.#bornLast = Math.max(this.#bornLast, keptSince)
    this.#keptSince = this.#bornLast
  }
}

function checkedAge(dataAgeMs: number): number {
  if (dataAgeMs >= 0 && dataAgeMs < Infinity) return dataAgeMs
  const why =
    dataAgeMs === Infinity ? 'It says that it has kept its data for ever' : 'It does not say how old its data is'
  throw new LeaseholdError('UNSUPPORTED', `${why}.`)
}

/** Carries a node's answer that must not be counted, but is worth knowing. Verdicts count it as unknown. */
export class Uncounted extends LeaseholdError {
  readonly said: ClaimStatus | undefined

  constructor(message: string, said: ClaimStatus | undefined, retryAfterMs?: number) {
    super('UNAVAILABLE', message, { reason: 'not-voting', ...(retryAfterMs !== undefined && { retryAfterMs }) })
    this.said = said
  }
}

/** The node's own answer, counted or not. */
export function saidBy(status: ClaimStatus): ClaimStatus {
  const said = status.state === 'unknown' && status.error instanceof Uncounted ? status.error.said : undefined
  return said === undefined ? status : saidBy(said)
}

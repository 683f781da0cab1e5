import { monotonicMs } from '../../core/time/environment.ts'

/** For how long a slot counts as being moved after it was last seen to be. */
const movesForMs = 10_000

/**
 * The hash tags whose keys lie on two nodes of a cluster, because their slot is being moved. Several of them in one call
 * are refused until the move is over, so each is asked for alone meanwhile.
 */
export class MigratingSlots {
  readonly #until = new Map<string, number>()

  note(tag: string): void {
    this.#until.set(tag, monotonicMs() + movesForMs)
  }

  has(tag: string): boolean {
    const until = this.#until.get(tag)
    if (until === undefined) return false
    if (monotonicMs() < until) return true
    this.#until.delete(tag)
    return false
  }
}

import type { SessionStep, StepKind } from './advisory-session.ts'

/** What is told once a step has been carried out: for a try its fence or 0, and the time. */
export type Outcome = (result: number, now: number) => void

/** Steps for one round trip, each key at most once, and what to do when they are done. */
export class StepPlan {
  readonly steps: SessionStep[] = []
  readonly #outcomes: Outcome[] = []
  readonly #renewals: ((now: number) => void)[] = []
  readonly #undecided = new Set<string>()

  get isEmpty(): boolean {
    return this.steps.length === 0 && this.#renewals.length === 0
  }

  /** Whether what becomes of the key hangs on this round trip. */
  isUndecided(hash: string): boolean {
    return this.#undecided.has(hash)
  }

  add(kind: StepKind, hash: string, outcome: Outcome): void {
    this.steps.push({ kind, hash })
    this.#outcomes.push(outcome)
    this.#undecided.add(hash)
  }

  /** A renewal needs no step, only a sign of life from the session. */
  renew(hash: string, renewal: (now: number) => void): void {
    this.#renewals.push(renewal)
    this.#undecided.add(hash)
  }

  /** Passes on the results, in the order of the steps. */
  settle(results: readonly number[], now: number): void {
    for (const [index, outcome] of this.#outcomes.entries()) outcome(results[index] ?? 0, now)
    for (const renewal of this.#renewals) renewal(now)
  }
}

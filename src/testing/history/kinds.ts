import type { Attempt } from './attempt.ts'

/** Claims that ask for the same thing. A key has few kinds however many claims it sees. */
export interface Kind<Value> {
  readonly example: Attempt
  value: Value
}

/** Keeps one value for each kind of claim, so that all that concern a claim are found without looking at every claim. */
export class Kinds<Value> {
  readonly #kinds = new Map<string, Kind<Value>>()

  of(attempt: Attempt, initial: Value): Kind<Value> {
    const { mode, limit, range } = attempt
    const name = `${mode} ${limit ?? ''} ${range === undefined ? '' : `${range.start}-${range.end}`}`
    let kind = this.#kinds.get(name)
    if (kind === undefined) this.#kinds.set(name, (kind = { example: attempt, value: initial }))
    return kind
  }

  all(): Iterable<Kind<Value>> {
    return this.#kinds.values()
  }
}

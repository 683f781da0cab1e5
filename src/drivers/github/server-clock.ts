/** GitHub's clock, as the `Date` of its last answer tells it: the time it says has certainly been reached. */
export class ServerClock {
  #leadMs: number | undefined

  /** An answer of that date arrived at `receivedAt`, by the client's clock. */
  note(dateMs: number, receivedAt: number): void {
    this.#leadMs = dateMs - receivedAt
  }

  /** The earliest that it can be there now; before the first answer nothing is known. */
  earliest(now: number): number {
    return this.#leadMs === undefined ? -Infinity : now + this.#leadMs
  }
}

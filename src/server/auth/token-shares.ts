/** How much of something each token has at once, so that no token takes all of it. @internal */
export class TokenShares {
  readonly #most: number
  readonly #counts = new Map<string, number>()

  constructor(most: number) {
    this.#most = most
  }

  /** Takes one for a token, until it is disposed of. Undefined: the token has its share already. */
  take(token: string): Disposable | undefined {
    const count = this.#counts.get(token) ?? 0
    if (count >= this.#most) return undefined
    this.#counts.set(token, count + 1)
    return new Share(this.#counts, token)
  }
}

class Share implements Disposable {
  readonly #counts: Map<string, number>
  readonly #token: string
  #isOver = false

  constructor(counts: Map<string, number>, token: string) {
    this.#counts = counts
    this.#token = token
  }

  [Symbol.dispose](): void {
    if (this.#isOver) return
    this.#isOver = true
    const left = (this.#counts.get(this.#token) ?? 1) - 1
    if (left > 0) this.#counts.set(this.#token, left)
    else this.#counts.delete(this.#token)
  }
}

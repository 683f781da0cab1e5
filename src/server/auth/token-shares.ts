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
    let isOver = false
    return {
      [Symbol.dispose]: () => {
        if (isOver) return
        isOver = true
        const left = (this.#counts.get(token) ?? 1) - 1
        if (left > 0) this.#counts.set(token, left)
        else this.#counts.delete(token)
      },
    }
  }
}

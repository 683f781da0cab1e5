/** Callers of `lease.renew` that have no answer yet. */
export class AwaitedRenewals {
  #callers: { readonly resolve: () => void; readonly reject: (error: unknown) => void }[] | undefined

  /** Resolves with the next renewal that goes through. */
  next(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#callers ??= []
      this.#callers.push({ resolve, reject })
    })
  }

  succeeded(): void {
    for (const { resolve } of this.#take()) resolve()
  }

  /** The error is made only if somebody awaits it. */
  failed(error: () => unknown): void {
    for (const { reject } of this.#take()) reject(error())
  }

  #take() {
    const callers = this.#callers ?? []
    this.#callers = undefined
    return callers
  }
}

import type { Batcher } from '../core/batcher.ts'

/** The keys of requests that the store may not know of yet: whoever looks must let it answer them first. */
export class UnsettledKeys {
  readonly #batcher: Batcher
  readonly #requests = new Map<string, number>()

  constructor(batcher: Batcher) {
    this.#batcher = batcher
  }

  /** A request is about to be sent. */
  add(key: string): void {
    this.#requests.set(key, (this.#requests.get(key) ?? 0) + 1)
  }

  /** The store has answered it for good. */
  delete(key: string): void {
    const others = (this.#requests.get(key) ?? 1) - 1
    if (others === 0) this.#requests.delete(key)
    else this.#requests.set(key, others)
  }

  /** The request was given up, and its release is about to be sent. */
  async deleteOnceReleased(key: string): Promise<void> {
    // The caller submits the release when this has returned.
    await Promise.resolve()
    await this.#batcher.keyAnswered(key)
    this.delete(key)
  }

  /** Resolves when the store has answered all that was sent before. */
  async settled(): Promise<void> {
    await Promise.all([...this.#requests.keys()].map((key) => this.#batcher.keyAnswered(key)))
  }
}

import { submitOnce, type Batcher } from '../core/batcher.ts'
import type { Environment } from '../core/time/environment.ts'

/** The keys of requests that the store may not know of yet: whoever looks must let it answer them first. */
export class UnsettledKeys {
  readonly #batcher: Batcher
  readonly #environment: Environment
  readonly #requests = new Map<string, number>()

  constructor(batcher: Batcher, environment: Environment) {
    this.#batcher = batcher
    this.#environment = environment
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

  /** The request was given up, and its release is on the way. */
  async deleteOnceReleased(key: string): Promise<void> {
    await this.#answered(key)
    this.delete(key)
  }

  /** Resolves when the store has answered all that was sent before. */
  async settled(): Promise<void> {
    await Promise.all([...this.#requests.keys()].map((key) => this.#answered(key)))
  }

  /** Requests of a key are answered in order. Releasing an id that nobody has changes nothing. */
  async #answered(key: string): Promise<void> {
    await submitOnce(this.#batcher, { op: 'release', key, id: this.#environment.id() })
  }
}

import type { Heard, ClaimStatus } from './driver.ts'

/** Those who hear a driver's news. */
export class Listeners {
  readonly #heard = new Set<Heard>()

  /** Hears whatever is told from now on, until disposed of. */
  listen(heard: Heard): Disposable {
    this.#heard.add(heard)
    return { [Symbol.dispose]: () => void this.#heard.delete(heard) }
  }

  tell(key: string, id: string, news: ClaimStatus | 'ask'): void {
    for (const heard of this.#heard) heard(key, id, news)
  }

  clear(): void {
    this.#heard.clear()
  }
}

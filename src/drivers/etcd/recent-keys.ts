import type { KeyReading } from './key-reading.ts'

const keysMax = 5000

/** Keys as we last wrote them: likely to be so still where nobody else comes. */
export class RecentKeys {
  readonly #readings = new Map<string, KeyReading>()

  get(key: string): KeyReading | undefined {
    return this.#readings.get(key)
  }

  /** Remembers keys that can be guessed at: idle ones, and those that one claim has alone. */
  put(key: string, reading: KeyReading): void {
    this.#readings.delete(key)
    if (reading.records.size > 1) return
    this.#readings.set(key, reading)
    if (this.#readings.size <= keysMax) return
    for (const oldest of this.#readings.keys()) {
      this.#readings.delete(oldest)
      return
    }
  }

  clear(): void {
    this.#readings.clear()
  }
}

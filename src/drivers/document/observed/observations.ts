/** A claim's lease, or the key's last unclean end, as far as an observer must tell it from the one before. */
export interface Beat {
  readonly id: string
  readonly beat: string
}

/** What this process has seen of one key. */
interface Seen {
  /** The reading, or write, that brought it. */
  readonly reading: number
  /** Beats by claim, each with when it was first seen. */
  readonly beats: ReadonlyMap<string, { readonly beat: string; readonly at: number }>
}

const keysMaxDefault = 20_000

/**
 * When this process first saw each beat, by its own clock. Forgetting a key is safe: its leases are then counted from the next
 * reading on, and end later.
 */
export class Observations {
  readonly #byKey = new Map<string, Seen>()
  readonly #keysMax: number
  #readings = 0

  constructor(keysMax = keysMaxDefault) {
    this.#keysMax = keysMax
  }

  /** A reading or a write is about to be sent. Its number tells it from those that overtake it. */
  begin(): number {
    return (this.#readings += 1)
  }

  /**
   * Takes in what a key was read or written with; `at` is when that was known. What is gone is forgotten. A reading that a later one
   * has overtaken is passed over.
   */
  see(key: string, beats: readonly Beat[], at: number, reading: number): void {
    const before = this.#byKey.get(key)
    if (before !== undefined && before.reading > reading) return
    // The key that was seen longest ago is the first to be forgotten.
    this.#byKey.delete(key)
    if (beats.length === 0) return
    const seen = beats.map(({ id, beat }) => {
      const known = before?.beats.get(id)
      return [id, known?.beat === beat ? known : { beat, at }] as const
    })
    this.#byKey.set(key, { reading, beats: new Map(seen) })
    if (this.#byKey.size <= this.#keysMax) return
    for (const oldest of this.#byKey.keys()) {
      this.#byKey.delete(oldest)
      return
    }
  }

  /** Whether claims of this key were last seen. */
  knows(key: string): boolean {
    return this.#byKey.has(key)
  }

  /** When this beat was first seen; undefined: it was not. */
  firstSeenAt(key: string, { id, beat }: Beat): number | undefined {
    const seen = this.#byKey.get(key)?.beats.get(id)
    return seen?.beat === beat ? seen.at : undefined
  }
}

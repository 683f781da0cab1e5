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

/** Beats of all keys together: a key has one for each claim. */
const beatsMaxDefault = 100_000
/** Keys that are looked at, for each that is seen, to find one to forget. */
const passedMax = 8

/**
 * When this process first saw each beat, by its own clock. Forgetting a key is safe: its leases are then counted from the next
 * reading on, and end later. A key that has claims of this process is kept: listing others must not put off its turn.
 */
export class Observations {
  readonly #byKey = new Map<string, Seen>()
  readonly #beatsMax: number
  readonly #isKept: (key: string) => boolean
  #beats = 0
  #readings = 0

  constructor(beatsMax = beatsMaxDefault, isKept: (key: string) => boolean = () => false) {
    this.#beatsMax = beatsMax
    this.#isKept = isKept
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
    this.#forget(key)
    if (beats.length === 0) return
    const seen = beats.map(({ id, beat }) => {
      const known = before?.beats.get(id)
      return [id, known?.beat === beat ? known : { beat, at }] as const
    })
    this.#put(key, { reading, beats: new Map(seen) })
    this.#forgetOldest(key)
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

  #put(key: string, seen: Seen): void {
    this.#byKey.set(key, seen)
    this.#beats += seen.beats.size
  }

  #forget(key: string): void {
    this.#beats -= this.#byKey.get(key)?.beats.size ?? 0
    this.#byKey.delete(key)
  }

  /** The key that was seen longest ago goes first; one that is kept goes to the end of the row. */
  #forgetOldest(newest: string): void {
    let passed = 0
    for (const [key, seen] of this.#byKey) {
      if (this.#beats <= this.#beatsMax || passed === passedMax || key === newest) return
      this.#forget(key)
      if (!this.#isKept(key)) continue
      this.#put(key, seen)
      passed += 1
    }
  }
}

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
  readonly beats: ReadonlyMap<string, FirstSeen>
  /** Beats of the last write. Readings up to `mayLack` may have come before it. */
  readonly written: ReadonlyMap<string, FirstSeen>
  readonly mayLack: number
}

interface FirstSeen {
  readonly beat: string
  readonly at: number
}

const keysMaxDefault = 20_000
const noBeats: ReadonlyMap<string, FirstSeen> = new Map()

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
   * Takes in what a key was read with; `at` is when that was known. What is gone is forgotten. A reading that a later one has overtaken
   * is passed over.
   */
  see(key: string, beats: readonly Beat[], at: number, reading: number): void {
    const before = this.#byKey.get(key)
    if (before !== undefined && before.reading > reading) return
    const isWritten = before !== undefined && reading <= before.mayLack
    if (beats.length === 0 && !isWritten) this.#byKey.delete(key)
    else {
      const { written, mayLack } = isWritten ? before : { written: noBeats, mayLack: 0 }
      this.#keep(key, { reading, beats: this.#firstSeen(key, beats, at), written, mayLack })
    }
  }

  /**
   * Takes in what a key was written with. Readings that are under way by now may know of the write or not, and those that know nothing
   * of it must not make its beats younger.
   */
  wrote(key: string, beats: readonly Beat[], at: number, writing: number): void {
    const before = this.#byKey.get(key)
    const written = this.#firstSeen(key, beats, at)
    const isOvertaken = before !== undefined && before.reading > writing
    if (beats.length === 0 && !isOvertaken) return void this.#byKey.delete(key)
    const mayLack = this.#readings
    this.#keep(
      key,
      isOvertaken ? { ...before, written, mayLack } : { reading: writing, beats: written, written, mayLack },
    )
  }

  #firstSeen(key: string, beats: readonly Beat[], at: number): ReadonlyMap<string, FirstSeen> {
    return new Map(beats.map((each) => [each.id, { beat: each.beat, at: this.firstSeenAt(key, each) ?? at }]))
  }

  #keep(key: string, seen: Seen): void {
    // The key that was seen longest ago is the first to be forgotten.
    this.#byKey.delete(key)
    this.#byKey.set(key, seen)
    if (this.#byKey.size <= this.#keysMax) return
    for (const oldest of this.#byKey.keys()) {
      this.#byKey.delete(oldest)
      return
    }
  }

  /** When this beat was first seen; undefined: it was not. */
  firstSeenAt(key: string, { id, beat }: Beat): number | undefined {
    const seen = this.#byKey.get(key)
    return [seen?.beats.get(id), seen?.written.get(id)].find((each) => each?.beat === beat)?.at
  }
}

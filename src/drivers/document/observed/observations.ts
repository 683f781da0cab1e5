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

const noBeats: ReadonlyMap<string, FirstSeen> = new Map()

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
   * Takes in what a key was read with; `at` is when that was known. What is gone is forgotten. A reading that a later one has overtaken
   * is passed over.
   */
  see(key: string, beats: readonly Beat[], at: number, reading: number): void {
    const before = this.#byKey.get(key)
    if (before !== undefined && before.reading > reading) return
    const seen = this.#firstSeen(key, beats, at)
    this.#forget(key)
    const isWritten = before !== undefined && reading <= before.mayLack
    if (beats.length === 0 && !isWritten) return
    const { written, mayLack } = isWritten ? before : { written: noBeats, mayLack: 0 }
    this.#put(key, { reading, beats: seen, written, mayLack })
    this.#forgetOldest(key)
  }

  /**
   * Takes in what a key was written with. Readings that are under way by now may know of the write or not, and those that know nothing
   * of it must not make its beats younger.
   */
  wrote(key: string, beats: readonly Beat[], at: number, writing: number): void {
    const before = this.#byKey.get(key)
    const written = this.#firstSeen(key, beats, at)
    const isOvertaken = before !== undefined && before.reading > writing
    this.#forget(key)
    if (beats.length === 0 && !isOvertaken) return
    const mayLack = this.#readings
    this.#put(
      key,
      isOvertaken ? { ...before, written, mayLack } : { reading: writing, beats: written, written, mayLack },
    )
    this.#forgetOldest(key)
  }

  #firstSeen(key: string, beats: readonly Beat[], at: number): ReadonlyMap<string, FirstSeen> {
    return new Map(beats.map((each) => [each.id, { beat: each.beat, at: this.firstSeenAt(key, each) ?? at }]))
  }

  /** When this beat was first seen; undefined: it was not. */
  firstSeenAt(key: string, { id, beat }: Beat): number | undefined {
    const seen = this.#byKey.get(key)
    return [seen?.beats.get(id), seen?.written.get(id)].find((each) => each?.beat === beat)?.at
  }

  #put(key: string, seen: Seen): void {
    this.#byKey.set(key, seen)
    this.#beats += beatsIn(seen)
  }

  #forget(key: string): void {
    const seen = this.#byKey.get(key)
    if (seen !== undefined) this.#beats -= beatsIn(seen)
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

/** A write shares its beats with what was seen, until a reading comes. */
function beatsIn({ beats, written }: Seen): number {
  return beats === written ? beats.size : beats.size + written.size
}

/** The bytes that callers make the server keep: bodies being carried out, answers that are not read yet. */

/** What one call, or one stream, keeps in memory. @internal */
export interface ByteHolding extends Disposable {
  /** From now on it keeps this much. May drop this holding, or others. */
  set(bytes: number): void
}

/** The connection of a holding. @internal */
export interface HoldingConnection {
  /** Calls on it that have no whole answer yet. */
  calls: number
  /** What these keep together. */
  bytes: number
}

/** Whose bytes they are, and how to end it. @internal */
export interface HoldingOptions {
  /** The token, or the address of a caller without one. */
  readonly owner: string
  readonly connection: HoldingConnection
  /** Ends the connection. Called once at most. */
  readonly drop: () => void
}

class Held implements ByteHolding {
  readonly #book: HoldingBook
  readonly owner: string
  readonly connection: HoldingConnection
  readonly drop: () => void
  bytes = 0
  isOver = false

  constructor(book: HoldingBook, { owner, connection, drop }: HoldingOptions) {
    this.#book = book
    this.owner = owner
    this.connection = connection
    this.drop = drop
  }

  set(bytes: number): void {
    this.#book.set(this, bytes)
  }

  [Symbol.dispose](): void {
    this.#book.end(this)
  }
}

/** Where holdings are counted. */
interface HoldingBook {
  set(held: Held, bytes: number): void
  end(held: Held): void
}

interface Owner {
  bytes: number
  /** The oldest first. */
  readonly holdings: Set<Held>
}

/**
 * Bounds what all callers together make the server keep. If that is too much, whoever has the most of it loses the oldest: a caller
 * who reads its answers is not cut off for others who do not. @internal
 */
export class HeldBytes {
  readonly #bytesMax: number
  readonly #perConnectionMax: number
  readonly #owners = new Map<string, Owner>()
  readonly #book: HoldingBook = {
    set: (held, bytes) => this.#set(held, bytes),
    end: (held) => this.#end(held),
  }
  #bytes = 0

  constructor(limits: { readonly heldBytesMax: number; readonly heldBytesPerConnectionMax: number }) {
    this.#bytesMax = limits.heldBytesMax
    this.#perConnectionMax = limits.heldBytesPerConnectionMax
  }

  /** Of all callers. */
  get bytes(): number {
    return this.#bytes
  }

  hold(options: HoldingOptions): ByteHolding {
    return new Held(this.#book, options)
  }

  #set(held: Held, bytes: number): void {
    if (held.isOver || held.bytes === bytes) return
    this.#change(held, bytes)
    const { connection } = held
    if (bytes > 0 && connection.calls > 1 && connection.bytes > this.#perConnectionMax) this.#drop(held)
    while (this.#bytes > this.#bytesMax) this.#dropOldestOfLargest()
  }

  #change(held: Held, bytes: number): void {
    let owner = this.#owners.get(held.owner)
    if (owner === undefined) this.#owners.set(held.owner, (owner = { bytes: 0, holdings: new Set() }))
    const delta = bytes - held.bytes
    held.bytes = bytes
    held.connection.bytes += delta
    owner.bytes += delta
    this.#bytes += delta
    if (bytes > 0) owner.holdings.add(held)
    else owner.holdings.delete(held)
    if (owner.holdings.size === 0) this.#owners.delete(held.owner)
  }

  #dropOldestOfLargest(): void {
    let largest: Owner | undefined
    for (const owner of this.#owners.values()) if (owner.bytes > (largest?.bytes ?? -1)) largest = owner
    for (const held of largest?.holdings ?? []) return this.#drop(held)
  }

  #drop(held: Held): void {
    this.#end(held)
    held.drop()
  }

  #end(held: Held): void {
    if (held.isOver) return
    if (held.bytes > 0) this.#change(held, 0)
    held.isOver = true
  }
}

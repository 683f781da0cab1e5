/** Reads replies in the third version of Redis' protocol (RESP3). */

/** An error that Redis replied. */
export class ReplyError extends Error {
  override readonly name = 'ReplyError'
}

/** A push: not a reply to a command, such as a message of a subscription. */
export class Push {
  readonly items: readonly unknown[]

  constructor(items: readonly unknown[]) {
    this.items = items
  }
}

/** An array of which not all items have arrived. */
interface OpenArray {
  readonly items: unknown[]
  readonly length: number
  readonly pushed: boolean
}

/** Stands for a value of which not all bytes have arrived. */
const incomplete = Symbol('incomplete')

const nothing = Buffer.alloc(0)

/** Reads replies out of the pieces in which they arrive. Maps are read as arrays of keys and values. */
export class ReplyReader {
  readonly #onReply: (reply: unknown) => void
  readonly #open: OpenArray[] = []
  #bytes: Buffer = nothing
  #at = 0

  /** @param onReply called with each reply, error and push. */
  constructor(onReply: (reply: unknown) => void) {
    this.#onReply = onReply
  }

  /** Reads a piece. Its buffer may be overwritten afterwards. */
  read(piece: Buffer): void {
    const rest = this.#bytes
    this.#bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece])
    this.#at = 0
    while (this.#at < this.#bytes.length) {
      const start = this.#at
      const value = this.#value()
      if (value !== incomplete) this.#complete(value)
      else if (this.#at === start) break
    }
    this.#bytes = this.#at === this.#bytes.length ? nothing : Buffer.from(this.#bytes.subarray(this.#at))
  }

  /** Adds a value to the array it belongs to. An array that is thereby complete is a value in turn. */
  #complete(value: unknown): void {
    let complete = value
    for (let open = this.#open.at(-1); open !== undefined; open = this.#open.at(-1)) {
      open.items.push(complete)
      if (open.items.length < open.length) return
      this.#open.pop()
      complete = open.pushed ? new Push(open.items) : open.items
    }
    this.#onReply(complete)
  }

  /** The next value that is no array. Of an array it reads the head only; a value that is incomplete it does not go past. */
  #value(): unknown {
    const from = this.#at + 1
    const end = this.#lineEnd(from)
    if (end + 1 >= this.#bytes.length) return incomplete
    const type = this.#bytes[this.#at] as number
    switch (type) {
      // $ a text, = a text with its format, ! an error
      case 36:
      case 61:
      case 33:
        return this.#text(type, this.#number(from, end), end + 2)
      // * an array, ~ a set, > a push, % a map
      case 42:
      case 126:
      case 62:
        return this.#array(this.#number(from, end), type === 62, end + 2)
      case 37:
        return this.#array(2 * this.#number(from, end), false, end + 2)
    }
    this.#at = end + 2
    // : a number, _ null, # true or false, - an error; + and all others a line of text
    if (type === 58) return this.#number(from, end)
    if (type === 95) return null
    const line = this.#bytes.toString('utf8', from, end)
    return type === 45 ? new ReplyError(line) : type === 35 ? line === 't' : line
  }

  #text(type: number, length: number, from: number): unknown {
    const end = from + Math.max(0, length)
    if (length >= 0 && end + 2 > this.#bytes.length) return incomplete
    this.#at = length < 0 ? from : end + 2
    if (length < 0) return null
    const text = this.#bytes.toString('utf8', type === 61 ? from + 4 : from, end)
    return type === 33 ? new ReplyError(text) : text
  }

  #array(length: number, pushed: boolean, from: number): unknown {
    this.#at = from
    if (length < 0) return null
    if (length === 0) return []
    this.#open.push({ items: [], length, pushed })
    return incomplete
  }

  /** Lines are short: this loop is quicker than `indexOf`. */
  #lineEnd(from: number): number {
    const bytes = this.#bytes
    let end = from
    while (end < bytes.length && bytes[end] !== 13) end += 1
    return end
  }

  #number(from: number, end: number): number {
    const negative = this.#bytes[from] === 45
    let number = 0
    for (let at = negative ? from + 1 : from; at < end; at += 1) number = number * 10 + (this.#bytes[at] as number) - 48
    return negative ? -number : number
  }
}

/** Whether a text has as many bytes as characters. Quicker once for a long text than for each of its parts. */
export function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length
}

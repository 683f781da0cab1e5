/** Texts that were seen before, remembered by a hash of 53 bits each: of a million, two are taken for one by chance 1 in 18,000. */
export class Seen {
  #table = new Float64Array(1 << 12)
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Whether the text is new. */
  add(text: string): boolean {
    if (this.#size * 2 > this.#table.length) this.#grow()
    // Zero means that a place is free.
    const isNew = this.#put(this.#table, hash53(text) + 1)
    if (isNew) this.#size += 1
    return isNew
  }

  #put(table: Float64Array, value: number): boolean {
    const mask = table.length - 1
    for (let at = value % table.length; ; at = (at + 1) & mask) {
      if (table[at] === value) return false
      if (table[at] !== 0) continue
      table[at] = value
      return true
    }
  }

  #grow(): void {
    const larger = new Float64Array(this.#table.length * 4)
    for (const value of this.#table) if (value !== 0) this.#put(larger, value)
    this.#table = larger
  }
}

/** Two hashes of 32 bits, mixed with each other. */
function hash53(text: string): number {
  let high = 0x2545f491
  let low = 0x1b873593
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    high = Math.imul(high ^ code, 0x01000193) ^ (high >>> 15)
    low = Math.imul(low + code, 0x0019660d) ^ (low >>> 13)
  }
  high = stir(high ^ (low << 7))
  low = stir(low ^ high)
  return (high & 0x1fffff) * 0x1_0000_0000 + (low >>> 0)
}

function stir(value: number): number {
  const once = Math.imul(value ^ (value >>> 16), 0x2c1b3c6d)
  const twice = Math.imul(once ^ (once >>> 12), 0x297a2d39)
  return twice ^ (twice >>> 15)
}

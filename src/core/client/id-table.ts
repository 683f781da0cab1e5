/** A table of at most this many slots is kept when it has become empty. */
const slotsKept = 16_384
/** Ids are random: their last characters tell them apart. */
const charactersHashed = 8

/**
 * Members by id, for members that come and go by the thousand: a hash table with open addressing. Not a `Map`, for the
 * reason given in `slot-set.ts`.
 */
export class IdTable<Member> {
  #ids: (string | undefined)[] = emptySlots(16)
  #members: (Member | undefined)[] = emptySlots(16)
  #size = 0

  get size(): number {
    return this.#size
  }

  get(id: string): Member | undefined {
    return this.#members[this.#find(id)]
  }

  /** The present members, in no order. */
  members(): Member[] {
    return this.#members.filter((member) => member !== undefined)
  }

  set(id: string, member: Member): void {
    // Never more than three quarters full: the next free slot is never far.
    if (this.#size * 4 >= this.#ids.length * 3) this.#resize(this.#ids.length * 2)
    const slot = this.#find(id)
    if (this.#ids[slot] === undefined) this.#size += 1
    this.#ids[slot] = id
    this.#members[slot] = member
  }

  delete(id: string): void {
    const slot = this.#find(id)
    if (this.#ids[slot] === undefined) return
    this.#size -= 1
    this.#close(slot)
    if (this.#size === 0 && this.#ids.length > slotsKept) this.clear()
  }

  clear(): void {
    this.#size = 0
    this.#ids = emptySlots(16)
    this.#members = emptySlots(16)
  }

  /** The slot of an id, or the free one where it belongs. */
  #find(id: string): number {
    const mask = this.#ids.length - 1
    let slot = hash(id) & mask
    for (;;) {
      const found = this.#ids[slot]
      if (found === undefined || found === id) return slot
      slot = (slot + 1) & mask
    }
  }

  /** Empties a slot, and moves up the members behind it that would not be found past a gap. */
  #close(slot: number): void {
    const mask = this.#ids.length - 1
    let gap = slot
    let next = gap
    for (;;) {
      next = (next + 1) & mask
      const id = this.#ids[next]
      if (id === undefined) break
      const pastItsPlace = (next - hash(id)) & mask
      if (pastItsPlace < ((next - gap) & mask)) continue
      this.#ids[gap] = id
      this.#members[gap] = this.#members[next]
      gap = next
    }
    this.#ids[gap] = undefined
    this.#members[gap] = undefined
  }

  #resize(slots: number): void {
    const ids = this.#ids
    const members = this.#members
    this.#ids = emptySlots(slots)
    this.#members = emptySlots(slots)
    for (const [slot, id] of ids.entries()) {
      if (id === undefined) continue
      const place = this.#find(id)
      this.#ids[place] = id
      this.#members[place] = members[slot]
    }
  }
}

function emptySlots(count: number): undefined[] {
  return Array.from<undefined>({ length: count })
}

function hash(id: string): number {
  let sum = id.length
  for (let at = Math.max(0, id.length - charactersHashed); at < id.length; at += 1) {
    sum = (Math.imul(sum, 31) + id.charCodeAt(at)) | 0
  }
  // Spread what differs only in the last characters, as numbered ids do.
  return Math.imul(sum ^ (sum >>> 15), 0x2c1b3c6d) >>> 7
}

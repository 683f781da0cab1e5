/** Something that knows its place in a {@link SlotSet}: -1 while it has none. */
export interface SlotMember {
  setSlot: number
}

/**
 * A set of things that come and go by the thousand. Not a `Set`: one that grows and shrinks leaves every table it has
 * outgrown linked to the next, and all they ever held is copied by each collection until a full one.
 */
export class SlotSet<Member extends SlotMember> implements Iterable<Member> {
  readonly #members: Member[] = []

  get size(): number {
    return this.#members.length
  }

  add(member: Member): void {
    if (member.setSlot >= 0) return
    member.setSlot = this.#members.length
    this.#members.push(member)
  }

  /** Whether it was there. */
  delete(member: Member): boolean {
    const slot = member.setSlot
    if (slot < 0) return false
    // The last one takes its place.
    const last = this.#members.pop() as Member
    member.setSlot = -1
    if (last === member) return true
    this.#members[slot] = last
    last.setSlot = slot
    return true
  }

  /** Those who are there now, in no order. They may leave meanwhile. */
  [Symbol.iterator](): Iterator<Member> {
    return this.#members.slice()[Symbol.iterator]()
  }
}

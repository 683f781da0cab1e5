/** A member keeps its own index in the {@link SlotSet}: -1 while it is in none. */
export interface SlotMember {
  setSlot: number
}

/**
 * A set of members that come and go by the thousand. Not a `Set`: as it grows and shrinks, it leaves every table it has
 * outgrown linked to the next, and each minor garbage collection copies all they ever held.
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

  /** Returns whether the member was there. */
  delete(member: Member): boolean {
    const slot = member.setSlot
    if (slot < 0) return false
    // The last member takes its place.
    const last = this.#members.pop() as Member
    member.setSlot = -1
    if (last === member) return true
    this.#members[slot] = last
    last.setSlot = slot
    return true
  }

  /** The present members, in no order. They may leave meanwhile. */
  [Symbol.iterator](): Iterator<Member> {
    return this.#members.slice()[Symbol.iterator]()
  }
}

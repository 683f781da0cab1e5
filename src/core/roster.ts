/** Something that knows its place in a {@link Roster}: -1 while it has none. */
export interface RosterMember {
  rosterSlot: number
}

/**
 * A set of things that come and go by the thousand. Not a `Set`: one that grows and shrinks leaves every table it has
 * outgrown linked to the next, and all they ever held is copied by each collection until a full one.
 */
export class Roster<Member extends RosterMember> implements Iterable<Member> {
  readonly #members: Member[] = []

  get size(): number {
    return this.#members.length
  }

  add(member: Member): void {
    if (member.rosterSlot >= 0) return
    member.rosterSlot = this.#members.length
    this.#members.push(member)
  }

  /** Whether it was there. */
  delete(member: Member): boolean {
    const slot = member.rosterSlot
    if (slot < 0) return false
    // The last one takes its place.
    const last = this.#members.pop() as Member
    member.rosterSlot = -1
    if (last === member) return true
    this.#members[slot] = last
    last.rosterSlot = slot
    return true
  }

  /** Those who are there now, in no order. They may leave meanwhile. */
  [Symbol.iterator](): Iterator<Member> {
    return this.#members.slice()[Symbol.iterator]()
  }
}

import { admit } from '../../../src/core/rule/admission.ts'
import { listed } from '../../../src/core/rule/claim-record.ts'
import { excludes } from '../../../src/core/rule/conflict.ts'
import type { Claim, ListedKey } from '../../../src/core/contract/driver.ts'
import { KeyState } from '../../../src/core/rule/key-state.ts'
import { isOwn } from '../../../src/core/contract/owner-name.ts'
import { seededRandom } from '../../../src/testing/random.ts'

/** Somebody who takes locks one after the other, and goes nowhere while it waits for one. */
interface Actor {
  readonly owner: string | undefined
  /** Steps that are left: a key to take, or -1 to let one go. */
  readonly steps: number[]
  readonly holds: Claim[]
  waits: Claim | undefined
  /** A body lets go only at its end, when those it does side by side have ended. */
  readonly isBody: boolean
  readonly siblings: Actor[]
  done: boolean
}

type Kind = Pick<Claim, 'mode' | 'limit'>
const writer: Kind = { mode: 'exclusive' }
const reader: Kind = { mode: 'shared' }
const permit: Kind = { mode: 'shared', limit: 2 }

/** Random owners over one store, run by the rule itself, one step at a time and in any order. */
export class Crowd {
  readonly random: () => number
  readonly actors: Actor[] = []
  readonly #keys = new Map<string, KeyState>()
  #ids = 0
  #now = 0

  constructor(seed: number) {
    this.random = seededRandom(seed)
    const owners = 2 + this.#pick(5)
    for (let index = 0; index < owners; index += 1) this.#join(index)
  }

  get now(): number {
    return this.#now
  }

  /** Lets one that can move take a step. False: nobody can. */
  step(): boolean {
    const movers = this.actors.filter((actor) => this.#canMove(actor))
    const actor = movers[this.#pick(movers.length)]
    if (actor === undefined) return false
    this.#now += 1
    const step = actor.steps.shift()
    if (step === undefined) this.#leave(actor)
    else if (step >= 0) this.#take(actor, step)
    else if (!actor.isBody) this.#letGo(actor, this.#pick(actor.holds.length))
    return true
  }

  /** What the store lists, a key at a time, while others may go on in between. */
  read(stepsBetween: number): ListedKey[] {
    const keys: ListedKey[] = []
    for (const [key, state] of this.#keys) {
      keys.push({ key, claims: [...state.holders(), ...state.waiters()].map(listed) })
      for (let steps = this.#pick(stepsBetween + 1); steps > 0; steps -= 1) this.step()
    }
    return keys
  }

  isWaiting(id: string): boolean {
    this.#settle()
    return this.actors.some(({ waits }) => waits?.id === id)
  }

  get waiting(): number {
    this.#settle()
    return this.actors.filter(({ waits }) => waits !== undefined).length
  }

  /** The one that was chosen gives way: it stops waiting, and lets go of all it has as soon as it can. */
  giveWay(id = 'nobody'): void {
    const actor = this.actors.find(({ waits }) => waits?.id === id)
    if (actor?.waits === undefined) throw new Error(`${id} does not wait`)
    this.#send(actor.waits.key, { op: 'release', key: actor.waits.key, id })
    actor.waits = undefined
    actor.steps.length = 0
  }

  #join(index: number): void {
    const anonymous = this.random() < 0.1
    const isBody = !anonymous && this.random() < 0.4
    const actor: Actor = {
      owner: anonymous ? undefined : `p${index}`,
      // What has no owner nobody can see in a cycle: it takes one at a time.
      steps: anonymous
        ? [this.#pick(4), -1, this.#pick(4)]
        : Array.from({ length: 2 + this.#pick(8) }, () => (this.random() < 0.35 ? -1 : this.#pick(4))),
      holds: [],
      waits: undefined,
      isBody,
      siblings: [],
      done: false,
    }
    this.actors.push(actor)
    if (!isBody) return
    for (let count = this.#pick(3); count > 0; count -= 1) {
      const steps = [this.#pick(4)]
      const sibling: Actor = { ...actor, owner: `p${index}/`, steps, holds: [], siblings: [], isBody: false }
      actor.siblings.push(sibling)
      this.actors.push(sibling)
    }
  }

  #canMove(actor: Actor): boolean {
    this.#settle()
    if (actor.done || actor.waits !== undefined) return false
    return actor.steps.length > 0 || actor.siblings.every(({ done }) => done)
  }

  #take(actor: Actor, number: number): void {
    const key = `key-${number}`
    // Mostly each key has its own kind, as in real programs; readers and writers share one.
    const kind = number === 3 ? permit : number === 1 && this.random() < 0.5 ? reader : writer
    const own = this.actors.flatMap((other) =>
      isOwn(actor.owner, other.owner) ? other.holds.filter((held) => held.key === key) : [],
    )
    const mine = [...own, ...actor.holds.filter((held) => held.key === key)]
    // An owner is told before it waits for itself; one without a name knows better in this crowd.
    if (mine.some((held) => excludes(held, kind)) || mine.length >= (kind.limit ?? Infinity)) return
    const claim: Claim = {
      id: `id-${(this.#ids += 1)}`,
      key,
      ...kind,
      priority: this.#pick(3),
      wait: true,
      ttlMs: 1_000_000,
      graceMs: 0,
      runner: { id: 'r', incarnation: 'r', host: 'h', pid: 1, client: 'c', owner: actor.owner },
    }
    actor.waits = claim
    this.#send(key, { op: 'claim', claim })
  }

  #letGo(actor: Actor, index: number): void {
    const [claim] = actor.holds.splice(index, 1)
    if (claim !== undefined) this.#send(claim.key, { op: 'release', key: claim.key, id: claim.id })
  }

  #leave(actor: Actor): void {
    while (actor.holds.length > 0) this.#letGo(actor, 0)
    actor.done = true
  }

  /** Tells those who have been granted what they waited for. */
  #settle(): void {
    for (const actor of this.actors) {
      const { waits } = actor
      if (waits === undefined || this.#keys.get(waits.key)?.find(waits.id)?.state !== 'held') continue
      actor.holds.push(waits)
      actor.waits = undefined
    }
  }

  #send(key: string, request: Parameters<typeof admit>[1]): void {
    let state = this.#keys.get(key)
    if (state === undefined) this.#keys.set(key, (state = new KeyState()))
    state.apply(admit(state, request, this.#now))
  }

  #pick(count: number): number {
    return Math.floor(this.random() * count)
  }
}

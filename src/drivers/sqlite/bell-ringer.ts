import path from 'node:path'
import { parseOwner } from '../../core/machine/owner.ts'
import { writeBellLine } from './bell-line.ts'
import { BellRope } from './bell-rope.ts'
import type { Notice } from './ledger.ts'

/** Bells kept open, at most: those who take turns ring each other again and again. */
const ropesMax = 32

/** Leaves news at the bells of others. Never fails: who is not reached asks in time. */
export class BellRinger {
  readonly #directory: string
  /** By owner, the one used last at the end. */
  readonly #ropes = new Map<string, BellRope>()

  constructor(directory: string) {
    this.#directory = directory
  }

  /** Resolves when the bells have rung. */
  ring(notices: readonly Notice[]): Promise<unknown> {
    const [only] = notices
    if (notices.length === 1 && only !== undefined) return this.#leave(only.owner, writeBellLine(only))
    const lines = new Map<string, string>()
    for (const notice of notices) lines.set(notice.owner, (lines.get(notice.owner) ?? '') + writeBellLine(notice))
    return Promise.all(Array.from(lines, ([owner, text]) => this.#leave(owner, text)))
  }

  close(): void {
    for (const rope of this.#ropes.values()) rope.letGo()
    this.#ropes.clear()
  }

  async #leave(owner: string, text: string): Promise<void> {
    if (await this.#pull(owner, text)) return
    // The bell was deleted, and its owner may have hung another in its place.
    this.#ropes.get(owner)?.letGo()
    this.#ropes.delete(owner)
    await this.#pull(owner, text)
  }

  #pull(owner: string, text: string): Promise<boolean> | true {
    try {
      return this.#ropeTo(owner)?.pull(text) ?? true
    } catch {
      // Its owner has gone.
      return true
    }
  }

  #ropeTo(owner: string): BellRope | undefined {
    const kept = this.#ropes.get(owner)
    this.#ropes.delete(owner)
    // The name comes out of the database: it must not lead anywhere else.
    if (kept === undefined && parseOwner(owner) === undefined) return undefined
    const rope = kept ?? new BellRope(path.join(this.#directory, owner))
    this.#ropes.set(owner, rope)
    if (this.#ropes.size > ropesMax) this.#dropOldest()
    return rope
  }

  #dropOldest(): void {
    for (const [owner, rope] of this.#ropes) {
      this.#ropes.delete(owner)
      rope.letGo()
      return
    }
  }
}

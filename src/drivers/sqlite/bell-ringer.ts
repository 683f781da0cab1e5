import { closeSync, constants, openSync, writeSync } from 'node:fs'
import path from 'node:path'
import { parseOwner } from '../../core/owner.ts'
import { writeBellLine } from './bell-line.ts'
import type { Notice } from './ledger.ts'

/** Bells kept open, at most: those who take turns ring each other again and again. */
const ropesMax = 32

/** Leaves news at the bells of others. Never fails: who is not reached asks in time. */
export class BellRinger {
  readonly #directory: string
  /** File descriptors by owner, the one used last at the end. */
  readonly #ropes = new Map<string, number>()

  constructor(directory: string) {
    this.#directory = directory
  }

  ring(notices: readonly Notice[]): void {
    const [only] = notices
    if (notices.length === 1 && only !== undefined) return this.#leave(only.owner, writeBellLine(only))
    const lines = new Map<string, string>()
    for (const notice of notices) lines.set(notice.owner, (lines.get(notice.owner) ?? '') + writeBellLine(notice))
    for (const [owner, text] of lines) this.#leave(owner, text)
  }

  close(): void {
    for (const rope of this.#ropes.values()) closeSync(rope)
    this.#ropes.clear()
  }

  #leave(owner: string, text: string): void {
    try {
      const rope = this.#ropeTo(owner)
      if (rope !== undefined) writeSync(rope, text)
    } catch {
      // Its owner has gone, or the disk is full.
    }
  }

  #ropeTo(owner: string): number | undefined {
    const kept = this.#ropes.get(owner)
    this.#ropes.delete(owner)
    // The name comes out of the database: it must not lead anywhere else.
    if (kept === undefined && parseOwner(owner) === undefined) return undefined
    const rope = kept ?? openSync(path.join(this.#directory, owner), constants.O_WRONLY | constants.O_APPEND)
    this.#ropes.set(owner, rope)
    if (this.#ropes.size > ropesMax) this.#dropOldest()
    return rope
  }

  #dropOldest(): void {
    for (const [owner, rope] of this.#ropes) {
      this.#ropes.delete(owner)
      closeSync(rope)
      return
    }
  }
}

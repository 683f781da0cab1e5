import path from 'node:path'
import { parseOwner } from '../../core/machine/owner.ts'
import { writeInboxLine } from './inbox-line.ts'
import { InboxWriter } from './inbox-writer.ts'
import type { Notice } from './transaction-writer.ts'

/** Inboxes kept open, at most: those who take turns ring each other again and again. */
const writersMax = 32

/** Leaves news at the inboxes of others. Never fails: who is not reached asks in time. */
export class InboxNotifier {
  readonly #directory: string
  /** By owner, the one used last at the end. */
  readonly #writers = new Map<string, InboxWriter>()

  constructor(directory: string) {
    this.#directory = directory
  }

  /** Resolves when the inboxes have rung. */
  ring(notices: readonly Notice[]): Promise<unknown> {
    const [only] = notices
    if (notices.length === 1 && only !== undefined) return this.#leave(only.owner, writeInboxLine(only))
    const lines = new Map<string, string>()
    for (const notice of notices) lines.set(notice.owner, (lines.get(notice.owner) ?? '') + writeInboxLine(notice))
    return Promise.all(Array.from(lines, ([owner, text]) => this.#leave(owner, text)))
  }

  close(): void {
    for (const writer of this.#writers.values()) writer.letGo()
    this.#writers.clear()
  }

  async #leave(owner: string, text: string): Promise<void> {
    if (await this.#pull(owner, text)) return
    // The inbox was deleted, and its owner may have hung another in its place.
    this.#writers.get(owner)?.letGo()
    this.#writers.delete(owner)
    await this.#pull(owner, text)
  }

  #pull(owner: string, text: string): Promise<boolean> | true {
    try {
      return this.#writerTo(owner)?.pull(text) ?? true
    } catch {
      // Its owner has gone.
      return true
    }
  }

  #writerTo(owner: string): InboxWriter | undefined {
    const kept = this.#writers.get(owner)
    this.#writers.delete(owner)
    // The name comes out of the database: it must not lead anywhere else.
    if (kept === undefined && parseOwner(owner) === undefined) return undefined
    const writer = kept ?? new InboxWriter(path.join(this.#directory, owner))
    this.#writers.set(owner, writer)
    if (this.#writers.size > writersMax) this.#dropOldest()
    return writer
  }

  #dropOldest(): void {
    for (const [owner, writer] of this.#writers) {
      this.#writers.delete(owner)
      writer.letGo()
      return
    }
  }
}

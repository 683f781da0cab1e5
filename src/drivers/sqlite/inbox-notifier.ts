import path from 'node:path'
import { parseStamp } from '../../core/machine/liveness-stamp.ts'
import { writeInboxLine } from './inbox-line.ts'
import { InboxWriter } from './inbox-writer.ts'
import type { PgNotification } from './transaction-writer.ts'

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
  ring(notices: readonly PgNotification[]): Promise<unknown> {
    const [only] = notices
    if (notices.length === 1 && only !== undefined) return this.#leave(only.stamp, writeInboxLine(only))
    const lines = new Map<string, string>()
    for (const notification of notices)
      lines.set(notification.stamp, (lines.get(notification.stamp) ?? '') + writeInboxLine(notification))
    return Promise.all(Array.from(lines, ([stamp, text]) => this.#leave(stamp, text)))
  }

  close(): void {
    for (const writer of this.#writers.values()) writer.letGo()
    this.#writers.clear()
  }

  async #leave(stamp: string, text: string): Promise<void> {
    if (await this.#pull(stamp, text)) return
    // The inbox was deleted, and its owner may have hung another in its place.
    this.#writers.get(stamp)?.letGo()
    this.#writers.delete(stamp)
    await this.#pull(stamp, text)
  }

  #pull(stamp: string, text: string): Promise<boolean> | true {
    try {
      return this.#writerTo(stamp)?.pull(text) ?? true
    } catch {
      // Its owner has gone.
      return true
    }
  }

  #writerTo(stamp: string): InboxWriter | undefined {
    const kept = this.#writers.get(stamp)
    this.#writers.delete(stamp)
    // The name comes out of the database: it must not lead anywhere else.
    if (kept === undefined && parseStamp(stamp) === undefined) return undefined
    const writer = kept ?? new InboxWriter(path.join(this.#directory, stamp))
    this.#writers.set(stamp, writer)
    if (this.#writers.size > writersMax) this.#dropOldest()
    return writer
  }

  #dropOldest(): void {
    for (const [stamp, writer] of this.#writers) {
      this.#writers.delete(stamp)
      writer.letGo()
      return
    }
  }
}

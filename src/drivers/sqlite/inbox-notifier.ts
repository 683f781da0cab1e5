import path from 'node:path'
import { parseStamp } from '../../core/machine/liveness.ts'
import { writeInboxLine } from './inbox.ts'
import type { PgNotification } from './transaction-writer.ts'
import { closeSync, constants, fstat, openSync, writeSync } from 'node:fs'

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

/**
 * Somebody's inbox, open for writing. Whoever rings pauses afterwards: the system often puts the process it wakes behind the
 * one that woke it, on the same processor.
 */
export class InboxWriter {
  readonly #descriptor: number
  #pulling = 0
  #letGo = false

  /** Throws where there is no such inbox. */
  constructor(file: string) {
    // A link would lead to a file that is nobody's inbox. Windows knows no such flag.
    this.#descriptor = openSync(file, constants.O_WRONLY | constants.O_APPEND | (constants.O_NOFOLLOW ?? 0))
  }

  /**
   * Leaves the text, if that can be done, and resolves when others have had the processor. False: the inbox has been
   * deleted, and nobody hears it.
   */
  pull(text: string): Promise<boolean> {
    try {
      writeSync(this.#descriptor, text)
    } catch {
      // A full disk is no reason to fail: who is not reached asks in time.
    }
    return this.#pause()
  }

  /** Something to be done by another thread, so that this one has nothing to do. */
  #pause(): Promise<boolean> {
    this.#pulling += 1
    return new Promise((resolve) => {
      fstat(this.#descriptor, (error, stats) => {
        this.#pulling -= 1
        this.#closeWhenDone()
        resolve(error !== null || stats.nlink > 0)
      })
    })
  }

  /** No more pulls. */
  letGo(): void {
    this.#letGo = true
    this.#closeWhenDone()
  }

  /** Not before: the number of a closed file may be another file's by the time it is written to. */
  #closeWhenDone(): void {
    if (this.#letGo && this.#pulling === 0) closeSync(this.#descriptor)
  }
}

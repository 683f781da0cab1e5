import { closeSync, constants, fstat, fstatSync, openSync, writeSync } from 'node:fs'
import path from 'node:path'
import { parseStamp } from '../../core/machine/liveness.ts'
import { writeInboxLine } from './inbox.ts'
import type { AddressedNotification } from './transaction-writer.ts'

/** Inboxes kept open, at most: processes that take turns notify each other again and again. */
const writersMax = 32

/** Writes notifications to the inboxes of other drivers. Never fails: a claim that is not reached renews in time. */
export class InboxNotifier {
  readonly #directory: string
  readonly #refuseStrangers: () => void
  /** By the stamp of the inbox's owner, the one used last at the end. */
  readonly #writers = new Map<string, InboxWriter>()

  /** `refuseStrangers` throws if others than the users of the lock file have made the directory. */
  constructor(directory: string, refuseStrangers: () => void = () => {}) {
    this.#directory = directory
    this.#refuseStrangers = refuseStrangers
  }

  /** Resolves when the inboxes have been written to. */
  notify(notifications: readonly AddressedNotification[]): Promise<unknown> {
    const [only] = notifications
    if (notifications.length === 1 && only !== undefined) return this.#append(only.stamp, writeInboxLine(only))
    const lines = new Map<string, string>()
    for (const notification of notifications) {
      lines.set(notification.stamp, (lines.get(notification.stamp) ?? '') + writeInboxLine(notification))
    }
    return Promise.all(Array.from(lines, ([stamp, text]) => this.#append(stamp, text)))
  }

  close(): void {
    for (const writer of this.#writers.values()) writer.close()
    this.#writers.clear()
  }

  async #append(stamp: string, text: string): Promise<void> {
    if (await this.#write(stamp, text)) return
    // The inbox was deleted, and its owner may have made another in its place.
    this.#writers.get(stamp)?.close()
    this.#writers.delete(stamp)
    await this.#write(stamp, text)
  }

  #write(stamp: string, text: string): Promise<boolean> | true {
    try {
      return this.#writerTo(stamp)?.write(text) ?? true
    } catch {
      // The inbox's owner has gone.
      return true
    }
  }

  #writerTo(stamp: string): InboxWriter | undefined {
    const kept = this.#writers.get(stamp)
    this.#writers.delete(stamp)
    // The stamp comes out of the database: as a file name it must not lead out of the directory.
    if (kept === undefined && parseStamp(stamp) === undefined) return undefined
    const writer = kept ?? this.#open(stamp)
    this.#writers.set(stamp, writer)
    if (this.#writers.size > writersMax) this.#dropOldest()
    return writer
  }

  /** The directory may have been deleted and made again by somebody else since the store was opened. */
  #open(stamp: string): InboxWriter {
    this.#refuseStrangers()
    return new InboxWriter(path.join(this.#directory, stamp))
  }

  #dropOldest(): void {
    for (const [stamp, writer] of this.#writers) {
      this.#writers.delete(stamp)
      writer.close()
      return
    }
  }
}

/**
 * Another driver's inbox, open for writing. The writer pauses after each line: the system often queues the process it wakes behind
 * the one that woke it, on the same processor.
 */
export class InboxWriter {
  readonly #descriptor: number
  #writes = 0
  #closed = false

  /** Throws where there is no such inbox. */
  constructor(file: string) {
    // A symbolic link would lead to a file that is no inbox, and opening a pipe would block. Windows has neither flag.
    const carefully = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)
    this.#descriptor = openSync(file, constants.O_WRONLY | constants.O_APPEND | carefully)
    const stats = fstatSync(this.#descriptor)
    // A second name would be that of a file which is no inbox.
    if (stats.isFile() && stats.nlink <= 1) return
    closeSync(this.#descriptor)
    throw new Error(`${file} is no inbox`)
  }

  /**
   * Appends the text, if that can be done, and resolves when other processes have had the processor. False: the inbox has been
   * deleted, and nobody reads it.
   */
  write(text: string): Promise<boolean> {
    try {
      writeSync(this.#descriptor, text)
    } catch {
      // A full disk is no reason to fail: a claim that is not reached renews in time.
    }
    return this.#pause()
  }

  /** Gives another thread something to do, so that this one is idle meanwhile. */
  #pause(): Promise<boolean> {
    this.#writes += 1
    return new Promise((resolve) => {
      fstat(this.#descriptor, (error, stats) => {
        this.#writes -= 1
        this.#closeWhenDone()
        resolve(error !== null || stats.nlink > 0)
      })
    })
  }

  /** No more is written. */
  close(): void {
    this.#closed = true
    this.#closeWhenDone()
  }

  /** Not while a write is under way: the descriptor could be another file's by then. */
  #closeWhenDone(): void {
    if (this.#closed && this.#writes === 0) closeSync(this.#descriptor)
  }
}

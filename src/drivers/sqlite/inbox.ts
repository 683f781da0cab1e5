import {
  closeSync,
  fstatSync,
  ftruncateSync,
  futimesSync,
  openSync,
  readSync,
  readdirSync,
  rmSync,
  statSync,
  watch,
} from 'node:fs'
import path from 'node:path'
import { runtime } from '../../core/machine/runtime.ts'
import { parseStamp } from '../../core/machine/liveness.ts'
import type { SelfIdentity } from './self-identity.ts'
import type { ClaimStatus } from '../../core/contract/driver.ts'

/** The owner empties an inbox that has grown past this. */
const inboxBytesMax = 256 * 1024
const readBytes = 16 * 1024
/** How often an inbox that cannot be watched is read: while a claim waits, and otherwise. */
const pollWaitingMs = 15
const pollIdleMs = 500
const secondCheckMs = 5
/** Inboxes checked by one opening, at most. */
const leftoversMax = 1000
/** Whether a process of another boot or container lives cannot be seen from here: a live driver touches its inbox more often than this. */
const foreignInboxKeptMs = 86_400_000

/** Calls `changed` when a file has changed. Throws where the system has no watchers left. */
export type WatchFile = (file: string, changed: () => void, failed: () => void) => { close(): void }

/** `fs.watch`, in a way that keeps no process alive. @internal */
export const watchFile: WatchFile = (file, changed, failed) => {
  const checks = runtime === 'Bun' ? checkTwice(changed) : { changed, close: () => {} }
  const watcher = watch(file, { persistent: false }, checks.changed)
  watcher.on('error', failed)
  return {
    close() {
      checks.close()
      watcher.close()
    },
  }
}

/** Of two changes within two milliseconds Bun reports only the first: a second check a little later finds the other. */
function checkTwice(check: () => void): { changed(): void; close(): void } {
  let timer: NodeJS.Timeout | undefined
  return {
    changed() {
      clearTimeout(timer)
      timer = setTimeout(check, secondCheckMs).unref()
      check()
    },
    close: () => clearTimeout(timer),
  }
}

/** @internal */
export interface InboxOptions {
  readonly file: string
  readonly watch: WatchFile
  onNotification(notification: InboxNotification): void
  /** Lines may have been lost. */
  onGap(): void
  /** The lock file may have been replaced: see {@link checkFileLine}. */
  checkFile(): void
  /** Somebody has deleted the inbox: no process can write to it any more. */
  onRemoved(): void
  /** Whether any claim of this driver waits. */
  isAwaited(): boolean
}

/** The file in which other processes leave notifications for one driver, so that it need not read the database. @internal */
export class Inbox {
  readonly #options: InboxOptions
  readonly #descriptor: number
  readonly #buffer = Buffer.alloc(readBytes)
  #offset = 0
  #rest: Buffer = Buffer.alloc(0)
  #watcher: { close(): void } | undefined
  #poll: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: InboxOptions) {
    this.#options = options
    this.#descriptor = openSync(options.file, 'wx+', 0o600)
    try {
      this.#watcher = options.watch(
        options.file,
        () => this.read(),
        () => this.#fallBack(),
      )
    } catch {
      this.#fallBack()
    }
  }

  /** Call when a claim begins to wait: an inbox without a watcher is polled more often then. */
  pollSooner(): void {
    if (this.#watcher === undefined) this.#pollSoon(pollWaitingMs)
  }

  /** Passes on the lines written since the last call. Never throws: it runs in timers and callbacks. */
  read(): void {
    if (this.#closed) return
    try {
      this.#readLines()
    } catch {
      this.#options.onGap()
    }
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#watcher?.close()
    clearTimeout(this.#poll)
    closeSync(this.#descriptor)
    rmSync(this.#options.file, { force: true })
  }

  /** Shows that the inbox is still in use: see {@link removeDeadInboxes}. */
  touch(): void {
    const now = new Date()
    futimesSync(this.#descriptor, now, now)
  }

  /** inotify allows each user few watchers: without one, the file is polled. */
  #fallBack(): void {
    this.#watcher?.close()
    this.#watcher = undefined
    if (!this.#closed) this.#pollSoon(pollWaitingMs)
  }

  #pollSoon(delayMs: number): void {
    clearTimeout(this.#poll)
    this.#poll = setTimeout(() => {
      this.read()
      if (!this.#closed) this.#pollSoon(this.#options.isAwaited() ? pollWaitingMs : pollIdleMs)
    }, delayMs).unref()
  }

  #readLines(): void {
    for (let length = readBytes; length === readBytes;) {
      length = readSync(this.#descriptor, this.#buffer, 0, readBytes, this.#offset)
      this.#offset += length
      if (length === 0) {
        const { size, nlink } = fstatSync(this.#descriptor)
        if (nlink === 0) return this.#options.onRemoved()
        // EOF before our offset: the file was truncated by someone else.
        if (size < this.#offset) return this.#rewind()
      }
      this.#split(this.#buffer.subarray(0, length))
      if (this.#closed) return
    }
    // One event of the watcher may stand for a line and for the deletion after it.
    if (fstatSync(this.#descriptor).nlink === 0) return this.#options.onRemoved()
    if (this.#offset <= inboxBytesMax) return
    // A line written between the last read and the truncation is lost: `#rewind` reports a gap.
    ftruncateSync(this.#descriptor)
    this.#rewind()
  }

  #rewind(): void {
    this.#offset = 0
    this.#rest = Buffer.alloc(0)
    this.#options.onGap()
  }

  /** A line may come in two pieces: the first is kept until the rest has come. */
  #split(piece: Buffer): void {
    const bytes = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece])
    let from = 0
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, from)) {
      const line = bytes.toString('utf8', from, end)
      from = end + 1
      if (`${line}\n` === checkFileLine) this.#options.checkFile()
      const notification = readInboxLine(line)
      if (notification !== undefined) this.#options.onNotification(notification)
    }
    this.#rest = Buffer.from(bytes.subarray(from))
  }
}

/** Removes inboxes that nobody reads: of a dead process, or, if that cannot be seen, neither written to nor touched for a day. @internal */
export function removeDeadInboxes(directory: string, observer: Pick<SelfIdentity, 'stamp' | 'isGone'>): void {
  try {
    for (const name of readdirSync(directory).slice(0, leftoversMax)) {
      const stamp = parseStamp(name)
      const inbox = path.join(directory, name)
      if (stamp === undefined) continue
      const { boot, namespace } = observer.stamp
      const isVisible = stamp.boot === boot && stamp.namespace === namespace
      const isDead =
        (stamp.boot === boot && observer.isGone(stamp)) ||
        (!isVisible && Date.now() - statSync(inbox).mtimeMs > foreignInboxKeptMs)
      if (isDead) rmSync(inbox, { force: true })
    }
  } catch {
    // An inbox that is left over harms nobody.
  }
}

/** A longer line is ignored. */
const lineLengthMax = 64 * 1024

/** The line that asks the owner of an inbox to check that the lock file is still the one it has open. */
export const checkFileLine = 'check-file\n'

/** One line of an inbox: the new status of a claim. */
export interface InboxNotification {
  readonly key: string
  readonly id: string
  readonly status: ClaimStatus
}

export function writeInboxLine({ key, id, status }: InboxNotification): string {
  return `${JSON.stringify({ key, id, status })}\n`
}

/**
 * Decodes one line; undefined: it is too long, or no status of a claim. Anybody who can open the file can write there, so the
 * listeners of the driver check the status, as they check answers.
 */
export function readInboxLine(line: string): InboxNotification | undefined {
  if (line.length > lineLengthMax) return undefined
  try {
    const { key, id, status } = JSON.parse(line) as InboxNotification
    if (typeof key !== 'string' || typeof id !== 'string' || typeof status?.state !== 'string') return undefined
    return { key, id, status }
  } catch {
    return undefined
  }
}

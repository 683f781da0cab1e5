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
import type { PgNotification } from './transaction-writer.ts'

/** A file that has grown past this is emptied by its owner. */
const inboxBytesMax = 256 * 1024
const readBytes = 16 * 1024
/** How often the file is looked at where it cannot be watched: while somebody waits, and otherwise. */
const pollWaitingMs = 15
const pollIdleMs = 500
const secondLookMs = 5
/** Leftovers looked at, at most, by one opening. */
const leftoversMax = 1000
/** Processes of another boot or another container cannot be seen from here: those that use the file touch their inboxes. */
const foreignInboxKeptMs = 86_400_000

/** Tells when a file has changed. Throws where the system has no watchers left. */
export type WatchFile = (file: string, changed: () => void, failed: () => void) => { close(): void }

/** `fs.watch`, in a way that keeps no process alive. @internal */
export const watchFile: WatchFile = (file, changed, failed) => {
  const looks = runtime === 'Bun' ? lookTwice(changed) : { changed, close: () => {} }
  const watcher = watch(file, { persistent: false }, looks.changed)
  watcher.on('error', failed)
  return {
    close() {
      looks.close()
      watcher.close()
    },
  }
}

/** Of two changes within two milliseconds Bun tells the first alone: a look a little later finds the second. */
function lookTwice(look: () => void): { changed(): void; close(): void } {
  let timer: NodeJS.Timeout | undefined
  return {
    changed() {
      clearTimeout(timer)
      timer = setTimeout(look, secondLookMs).unref()
      look()
    },
    close: () => clearTimeout(timer),
  }
}

/** @internal */
export interface InboxOptions {
  readonly file: string
  readonly watch: WatchFile
  onNotification(notification: InboxNotification): void
  /** Some lines may have been lost: ask the store. */
  onGap(): void
  /** The lock file may have been replaced: look at it. */
  look(): void
  /** Somebody has deleted this inbox's file: nobody can ring it any more. */
  removed(): void
  /** Whether any claim waits for news. */
  isAwaited(): boolean
}

/** The file in which others leave news for one driver: a hint that costs the hearer no look at the database. @internal */
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
        () => this.listen(),
        () => this.#fallBack(),
      )
    } catch {
      this.#fallBack()
    }
  }

  /** Call when a claim begins to wait: an inbox that is polled must be polled more often then. */
  awaited(): void {
    if (this.#watcher === undefined) this.#pollSoon(pollWaitingMs)
  }

  /** Passes on what has come since. Never throws: it runs in timers and callbacks. */
  listen(): void {
    if (this.#closed) return
    try {
      this.#read()
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

  /** Says that somebody still hears this inbox: see {@link removeDeadInboxes}. */
  touch(): void {
    const now = new Date()
    futimesSync(this.#descriptor, now, now)
  }

  /** inotify allows few watchers a user: look at the file instead. */
  #fallBack(): void {
    this.#watcher?.close()
    this.#watcher = undefined
    if (!this.#closed) this.#pollSoon(pollWaitingMs)
  }

  #pollSoon(delayMs: number): void {
    clearTimeout(this.#poll)
    this.#poll = setTimeout(() => {
      this.listen()
      if (!this.#closed) this.#pollSoon(this.#options.isAwaited() ? pollWaitingMs : pollIdleMs)
    }, delayMs).unref()
  }

  #read(): void {
    for (let length = readBytes; length === readBytes;) {
      length = readSync(this.#descriptor, this.#buffer, 0, readBytes, this.#offset)
      this.#offset += length
      if (length === 0) {
        const { size, nlink } = fstatSync(this.#descriptor)
        if (nlink === 0) return this.#options.removed()
        // EOF before our offset: somebody else has emptied the file.
        if (size < this.#offset) return this.#rewind()
      }
      this.#split(this.#buffer.subarray(0, length))
      if (this.#closed) return
    }
    // One event may stand for a line and the deletion after it.
    if (fstatSync(this.#descriptor).nlink === 0) return this.#options.removed()
    if (this.#offset <= inboxBytesMax) return
    // A line written between the last read and this is lost, so everybody asks.
    ftruncateSync(this.#descriptor)
    this.#rewind()
  }

  #rewind(): void {
    this.#offset = 0
    this.#rest = Buffer.alloc(0)
    this.#options.onGap()
  }

  /** A line may come in two pieces: the last one waits for its end. */
  #split(piece: Buffer): void {
    const bytes = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece])
    let from = 0
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, from)) {
      const line = bytes.toString('utf8', from, end)
      from = end + 1
      if (`${line}\n` === lookLine) this.#options.look()
      const notification = readInboxLine(line)
      if (notification !== undefined) this.#options.onNotification(notification)
    }
    this.#rest = Buffer.from(bytes.subarray(from))
  }
}

/** Removes inboxes that nobody hears: of a dead process, or of one that cannot be seen, neither rung nor touched for a day. @internal */
export function removeDeadInboxes(directory: string, observer: Pick<SelfIdentity, 'self' | 'isGone'>): void {
  try {
    for (const name of readdirSync(directory).slice(0, leftoversMax)) {
      const stamp = parseStamp(name)
      const inbox = path.join(directory, name)
      if (stamp === undefined) continue
      const { boot, namespace } = observer.self
      const isVisible = stamp.boot === boot && stamp.namespace === namespace
      const dead =
        (stamp.boot === boot && observer.isGone(stamp)) ||
        (!isVisible && Date.now() - statSync(inbox).mtimeMs > foreignInboxKeptMs)
      if (dead) rmSync(inbox, { force: true })
    }
  } catch {
    // Leftovers harm nobody.
  }
}

/** A line longer than this is nobody's news. */
const lineLengthMax = 64 * 1024

/** Another thing an inbox says: look whether the lock file is still the one you have open. */
export const lookLine = 'look\n'

/** What an inbox says: a status, in one line. */
export interface InboxNotification {
  readonly key: string
  readonly id: string
  readonly status: ClaimStatus
}

export function writeInboxLine({ key, id, status }: PgNotification): string {
  return `${JSON.stringify({ key, id, status })}\n`
}

/** Reads one line. Whoever can open the file can write there, so anything but well-formed news is ignored. */
export function readInboxLine(line: string): InboxNotification | undefined {
  if (line.length > lineLengthMax) return undefined
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return undefined
  }
  if (!isObject(value)) return undefined
  const { key, id, status } = value
  if (typeof key !== 'string' || typeof id !== 'string' || !isClaimStatus(status)) return undefined
  return { key, id, status }
}

function isClaimStatus(value: unknown): value is ClaimStatus {
  if (!isObject(value)) return false
  switch (value['state']) {
    case 'held':
      return isFence(value['fence']) && Number.isFinite(value['ttlMs']) && isText(value['leaving'])
    case 'absent':
      return typeof value['reason'] === 'string' && isText(value['detail'])
    default:
      // Nobody but its owner moves a claim into the queue.
      return false
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isFence(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) > 0
}

function isText(value: unknown): boolean {
  return value === undefined || typeof value === 'string'
}

import { close, constants, fstatSync, open, openSync, write } from 'node:fs'
import type { Logger } from '../../api/client/logger.ts'
import { isMadeByStranger } from '../../core/machine/foreign-files.ts'
import { LeaseholdError, messageOf } from '../../core/errors.ts'

/** What the file has taken and lost, for the metrics. @internal */
export interface LineCounts {
  auditLines: number
  auditDropped: number
}

/** What a file of lines works with. @internal */
export interface LineFileParts {
  /** Bytes that may wait to be written. */
  readonly bytesMax: number
  readonly counts: LineCounts
  readonly logger: Logger | undefined
  /** The line that says that so many are missing here. */
  readonly gapLine: (missing: number) => string
  /** Milliseconds that never go back. */
  readonly now: () => number
}

/** A line that waits to be written, and whose doing it tells of. */
interface QueuedLine {
  readonly line: string
  readonly owner: string | undefined
  readonly bytes: number
}

const pieceBytesMax = 262_144
/** A reader that is slow; a disk that is full or gone. */
const againMs = 50
const againAfterFaultMs = 500
/** The log is for people. */
const warnEveryMs = 60_000
/** A pipe that is full answers at once: a write that blocks in a thread would keep the process from ending. */
const atOnce = constants.O_NONBLOCK ?? 0
const appending = constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | atOnce

/**
 * Appends lines to a file, or to standard output (`-`). Nobody waits for it: lines queue up while the disk is slow or full, and
 * when the queue is full the new ones are dropped and counted. A line says in the file itself that some are missing. @internal
 */
export class LineFile {
  readonly #path: string
  readonly #parts: LineFileParts
  #descriptor: number
  #queue: QueuedLine[] = []
  #queuedBytes = 0
  /** What of it each owner has. */
  readonly #queuedBytesBy = new Map<string, number>()
  /** What is being written, and how much of it has been. */
  #piece: Buffer | undefined
  #written = 0
  #missing = 0
  #warnedAt = -Infinity
  #timer: NodeJS.Timeout | undefined
  #isWriting = false
  #isClosed = false
  #replacement: number | undefined
  #idle: (() => void)[] = []

  private constructor(path: string, descriptor: number, parts: LineFileParts) {
    this.#path = path
    this.#descriptor = descriptor
    this.#parts = parts
  }

  /** Opens the file, for its owner alone if it is new. Rejects with INVALID where it cannot be opened. */
  static async open(path: string, parts: LineFileParts): Promise<LineFile> {
    return new LineFile(path, await opened(path), parts)
  }

  /**
   * Queues a line, without its end. Never throws, and never waits. `owner` is whose doing the line tells of: no owner takes more than
   * half of the queue, so that none hides what others do.
   */
  write(line: string, owner?: string): void {
    if (this.#isClosed) return
    const { bytesMax, counts } = this.#parts
    const size = Buffer.byteLength(line) + 1
    const ownBytes = owner === undefined ? 0 : (this.#queuedBytesBy.get(owner) ?? 0)
    // A single line is taken whatever its length.
    const hasItsShare = ownBytes > 0 && ownBytes + size > bytesMax / 2
    if (hasItsShare || this.#queuedBytes + size > bytesMax) {
      counts.auditDropped += 1
      this.#missing += 1
      this.#warn('the queue is full')
      return
    }
    this.#noteMissing()
    this.#push(line, owner)
    this.#next()
  }

  /** Opens the path once more, after the file was moved. Rejects where it cannot be opened: the old file is written on. */
  async reopen(): Promise<void> {
    if (this.#path === '-' || this.#isClosed) return
    const replacement = await opened(this.#path)
    if (this.#isClosed) return close(replacement, () => {})
    if (this.#replacement !== undefined) close(this.#replacement, () => {})
    this.#replacement = replacement
    this.#next()
  }

  /** Writes what is queued, for so long at most. Nothing is written afterwards. */
  async close(withinMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, withinMs)))
    const idle = new Promise<void>((resolve) => this.#idle.push(resolve))
    this.#next()
    await Promise.race([idle, late])
    clearTimeout(timer)
    clearTimeout(this.#timer)
    const left = this.#queue.length + (this.#piece === undefined ? 0 : 1)
    if (left > 0) this.#parts.logger?.warn('the end of the audit could not be written')
    this.#queue = []
    this.#piece = undefined
    this.#isClosed = true
    if (!this.#isWriting) this.#release()
  }

  /** Lets go of the files, unless one is standard output. */
  #release(): void {
    for (const descriptor of [this.#descriptor, this.#replacement ?? 0]) if (descriptor > 2) close(descriptor, () => {})
  }

  #push(line: string, owner?: string): void {
    const bytes = Buffer.byteLength(line) + 1
    this.#queue.push({ line, owner, bytes })
    this.#queuedBytes += bytes
    if (owner !== undefined) this.#queuedBytesBy.set(owner, (this.#queuedBytesBy.get(owner) ?? 0) + bytes)
  }

  #noteMissing(): void {
    if (this.#missing === 0) return
    this.#push(this.#parts.gapLine(this.#missing))
    this.#missing = 0
  }

  /** Writes the next piece, unless one is being written. */
  #next(): void {
    if (this.#isWriting || this.#isClosed) return
    this.#replace()
    if (this.#piece === undefined) {
      if (this.#queue.length === 0) this.#noteMissing()
      if (this.#queue.length === 0) return this.#settle()
      this.#piece = this.#nextPiece()
      this.#written = 0
    }
    if (this.#timer !== undefined) return
    const piece = this.#piece
    this.#isWriting = true
    write(this.#descriptor, piece, this.#written, piece.length - this.#written, null, (error, bytes) => {
      this.#isWriting = false
      if (this.#isClosed) return this.#release()
      if (error === null) this.#took(piece, bytes)
      else this.#failed(error)
      this.#next()
    })
  }

  #nextPiece(): Buffer {
    let length = 0
    const count = this.#queue.findIndex(({ bytes }) => (length += bytes) > pieceBytesMax) + 1
    const taken = this.#queue.splice(0, count === 0 ? this.#queue.length : count)
    for (const { owner, bytes } of taken) {
      if (owner === undefined) continue
      const left = (this.#queuedBytesBy.get(owner) ?? 0) - bytes
      if (left > 0) this.#queuedBytesBy.set(owner, left)
      else this.#queuedBytesBy.delete(owner)
    }
    return Buffer.from(`${taken.map(({ line }) => line).join('\n')}\n`)
  }

  #took(piece: Buffer, bytes: number): void {
    const before = this.#written
    this.#written += bytes
    this.#queuedBytes -= bytes
    for (let at = piece.indexOf(10, before); at >= 0 && at < this.#written; at = piece.indexOf(10, at + 1)) {
      this.#parts.counts.auditLines += 1
    }
    if (this.#written >= piece.length) this.#piece = undefined
  }

  #failed(error: NodeJS.ErrnoException): void {
    const isFull = error.code === 'EAGAIN'
    if (!isFull) this.#warn(messageOf(error))
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined
        this.#next()
      },
      isFull ? againMs : againAfterFaultMs,
    ).unref()
  }

  /** Goes on in the file that was opened anew: with a whole line, whatever the old file has of it. */
  #replace(): void {
    if (this.#replacement === undefined) return
    close(this.#descriptor, () => {})
    this.#descriptor = this.#replacement
    this.#replacement = undefined
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#piece === undefined) return
    const lineStart = this.#written === 0 ? 0 : this.#piece.lastIndexOf(10, this.#written - 1) + 1
    this.#queuedBytes += this.#written - lineStart
    this.#written = lineStart
  }

  #warn(why: string): void {
    const now = this.#parts.now()
    if (now - this.#warnedAt < warnEveryMs) return
    this.#warnedAt = now
    const { auditDropped } = this.#parts.counts
    this.#parts.logger?.warn(`the audit cannot be written: ${why} (${auditDropped} lines dropped so far)`)
  }

  #settle(): void {
    for (const resolve of this.#idle.splice(0)) resolve()
  }
}

function opened(path: string): Promise<number> {
  if (path === '-') return Promise.resolve(standardOutput())
  return new Promise((resolve, reject) => {
    open(path, appending, 0o600, (error, descriptor) => {
      if (error === null && isOfStranger(path, descriptor)) {
        close(descriptor, () => {})
        const message = `${path} was made by another user, who could read and change the audit. Delete it, or choose another file.`
        reject(new LeaseholdError('INVALID', message))
      } else if (error === null) resolve(descriptor)
      else reject(new LeaseholdError('INVALID', `The audit cannot be written: ${messageOf(error)}`, { cause: error }))
    })
  })
}

/** Whether another user made the file, the pipe or the link of that name. A terminal may be another user's, as after `su`. */
function isOfStranger(path: string, descriptor: number): boolean {
  if (isMadeByStranger(path)) return true
  const stats = fstatSync(descriptor)
  return stats.isFile() && ![process.geteuid?.() ?? stats.uid, 0].includes(stats.uid)
}

/** Standard output; if it is a pipe, opened anew: to change the pipe itself would change it for every process that shares it. */
function standardOutput(): number {
  try {
    if (!fstatSync(1).isFIFO()) return 1
    return openSync('/proc/self/fd/1', constants.O_WRONLY | atOnce)
  } catch {
    return 1
  }
}

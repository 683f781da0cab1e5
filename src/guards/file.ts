import { randomUUID } from 'node:crypto'
import { closeSync, fsyncSync, openSync, renameSync } from 'node:fs'
import { open, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { checkOptions, type OptionNames } from '../core/contract/option-names.ts'
import { durationMs, type Duration } from '../core/time/duration.ts'
import { openDatabase, type Database } from '../drivers/sqlite/database.ts'
import { sqliteError } from '../drivers/sqlite/faults.ts'
import { retryWhileBusy } from '../drivers/sqlite/busy-retry.ts'
import { checkFence, superseded } from './superseded.ts'

/** The options of `fileGuard`. */
export interface FileGuardOptions {
  /**
   * How long to wait while another process is writing the file, before UNAVAILABLE (`busy`).
   *
   * @default '5s'
   */
  readonly busyTimeout?: Duration | undefined
}

const fileNames: OptionNames<FileGuardOptions> = { busyTimeout: true }

/**
 * Keeps stale holders out of a file. The file is replaced as a whole, so that readers see the old content or the new.
 * `FILE.fence`, a small SQLite file, keeps the fence. A file system cannot compare and rename in one step; SQLite's lock,
 * which the system releases if the process dies, makes the two atomic.
 */
export interface FileGuard {
  /**
   * Raises the fence before a read whose result is to be written back, on disk when it resolves: no earlier holder can
   * replace the file any more. Throws LOST (`superseded`) if a later holder has been here.
   */
  raise(fence: number): Promise<void>
  /** Replaces the content, durably once it resolves. Throws LOST (`superseded`) if a later holder has written. */
  write(content: string | Uint8Array, fence: number): Promise<void>
}

class FileFences implements FileGuard {
  readonly #file: string
  readonly #busyTimeoutMs: number

  constructor(file: string, options: FileGuardOptions = {}) {
    checkOptions(options, fileNames, 'fileGuard')
    this.#file = path.resolve(file)
    this.#busyTimeoutMs = options.busyTimeout === undefined ? 5000 : durationMs(options.busyTimeout, 'busyTimeout')
  }

  async raise(fence: number): Promise<void> {
    checkFence(fence)
    await this.#withFences((fences) => this.#retryWhileBusy(() => raise(fences, this.#file, fence)))
  }

  async write(content: string | Uint8Array, fence: number): Promise<void> {
    checkFence(fence)
    const draft = `${this.#file}.${randomUUID()}.draft`
    try {
      await writeThrough(draft, content, await modeOf(this.#file))
      await this.#withFences(async (fences) => {
        // Write the fence first: a crash in between must not leave content that a lower fence may replace.
        await this.#retryWhileBusy(() => raise(fences, this.#file, fence))
        await this.#retryWhileBusy(() => replace(fences, this.#file, draft, fence))
      })
    } finally {
      await rm(draft, { force: true })
    }
  }

  async #withFences(use: (fences: Database) => Promise<void>): Promise<void> {
    let fences: Database | undefined
    try {
      fences = await retryWhileBusy(() => openFences(`${this.#file}.fence`), this.#busyTimeoutMs)
      await use(fences)
    } catch (error) {
      throw sqliteError(error, `${this.#file}.fence`)
    } finally {
      fences?.close()
    }
  }

  async #retryWhileBusy(attempt: () => void): Promise<void> {
    await retryWhileBusy(attempt, this.#busyTimeoutMs)
  }
}

/**
 * A guard for one file.
 *
 * @example
 * ```ts
 * import { fileGuard } from 'leasehold/guards'
 *
 * const guard = fileGuard('/var/lib/shop/report.json')
 * await locks.run('report', (lease) => guard.write('{}', lease.fence))
 * ```
 */
export function fileGuard(file: string, options?: FileGuardOptions): FileGuard {
  return new FileFences(file, options)
}

/** The permissions of the file; undefined if it does not exist. */
async function modeOf(file: string): Promise<number | undefined> {
  try {
    return (await stat(file)).mode & 0o777
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

async function writeThrough(file: string, content: string | Uint8Array, mode: number | undefined): Promise<void> {
  const handle = await open(file, 'wx')
  try {
    if (mode !== undefined) await handle.chmod(mode)
    await handle.writeFile(content)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function openFences(file: string): Database {
  const fences = openDatabase(file)
  try {
    // `extra` also syncs the removal of the journal: after a power cut, a leftover journal would restore the old fence.
    fences.exec('pragma busy_timeout = 0; pragma synchronous = extra')
    fences.exec('create table if not exists fence (one integer primary key check (one = 1), seen integer not null)')
    return fences
  } catch (error) {
    fences.close()
    throw error
  }
}

/**
 * Raises the stored fence, durably once it returns, or throws if it is higher. Most writes are not the first of their
 * holder: those only read.
 */
function raise(fences: Database, file: string, fence: number): void {
  if (seenBy(fences, file, fence) === fence) return
  const upsert = 'insert into fence values (1, ?) on conflict (one) do update set seen = max(seen, excluded.seen)'
  fences.command(upsert).run(fence)
  // Another holder may have raised it further between the read and the write.
  seenBy(fences, file, fence)
}

/** Renames the draft under SQLite's write lock, so that nobody raises the fence meanwhile. */
function replace(fences: Database, file: string, draft: string, fence: number): void {
  fences.exec('begin immediate')
  try {
    seenBy(fences, file, fence)
    renameSync(draft, file)
    syncDirectory(path.dirname(file))
  } finally {
    fences.exec('rollback')
  }
}

/** The stored fence. Throws if it is higher than `fence`. */
function seenBy(fences: Database, file: string, fence: number): number {
  const seen = Number(fences.query('select seen from fence').get()?.['seen'] ?? 0)
  if (fence < seen) throw superseded(file, fence, seen)
  return seen
}

/** Makes a rename durable by syncing its directory. Windows cannot sync a directory. */
function syncDirectory(directory: string): void {
  if (process.platform === 'win32') return
  const descriptor = openSync(directory, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

import {
  closeSync,
  fstatSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { LeaseholdError } from '../errors.ts'
import { makeDirectory } from './directories.ts'
import { isOpenToStrangers } from './foreign-files.ts'

/** Whether a process is alive. `unknown`: it cannot be seen from here, e.g. in another container. */
export type Liveness = 'running' | 'gone' | 'unknown'

/** How processes recognise each other. */
export interface ProcessWatch {
  /** This process, as text. */
  readonly self: string
  /** This process, described for people. */
  readonly label?: string
  /** This machine, in characters that fit into a file name. */
  readonly machine: string
  /** Whether the process with this text, which last renewed its name `unrenewedMs` ago, still runs. */
  judge(process: string, unrenewedMs: number): Liveness
}

/** A runner name that is ours until `release`, or until this process ends. */
export interface HeldName {
  /** The runner id kept under the name: the same at every start. */
  readonly id: string
  release(): void
}

/** How often the holder of a name renews it, and when the name is free if its holder cannot be seen from here. */
export interface NameTiming {
  readonly renewEveryMs: number
  /** A name that was not renewed for so long is free, by the clock of the process that wants it. */
  readonly freeAfterMs: number
  /** How long to watch a file that is older than `freeAfterMs` already: long enough to see a renewal. */
  readonly confirmMs: number
}

const timingDefault: NameTiming = { renewEveryMs: 2000, freeAfterMs: 20_000, confirmMs: 5000 }

interface Entry {
  /** Undefined: the file was damaged, e.g. by a loss of power. */
  readonly id: string | undefined
  /** The process that has the name; empty: none. */
  readonly process: string
  /** The process, described for people. */
  readonly label?: string | undefined
}

/** An entry, and when it was last written by the clock of the file system. */
interface ReadEntry extends Entry {
  readonly renewedAtMs: number
}

const nameForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

/**
 * Takes a runner name for this process, and gives the id that is kept under it. Rejects if a live process has the name: two
 * processes with one identity would take each other's locks. If it cannot be known whether that process lives, the name is
 * free once it has gone unrenewed.
 *
 * A name belongs to one machine: a copy of the directory on another machine gives other ids. Each holder of a name adds a
 * file `NAME@MACHINE.N+1`, which only one process can create; the highest number counts, and is never removed before a
 * higher one exists.
 */
export async function takeRunnerName(
  directory: string,
  name: string,
  watch: ProcessWatch,
  newId: () => string,
  timing: NameTiming = timingDefault,
): Promise<HeldName> {
  if (typeof name !== 'string' || !nameForm.test(name)) {
    const shown = JSON.stringify(name)
    throw new LeaseholdError(
      'INVALID',
      `The runner name ${shown} is not usable. Use up to 64 letters, digits, '.', '_', '-'.`,
    )
  }
  makeDirectory(directory)
  // Whoever can write there can give us the identity of another runner, and with it the locks that it may reclaim.
  if (isOpenToStrangers(directory)) {
    throw new LeaseholdError(
      'INVALID',
      `Other users can write to ${directory}, where runner names are kept. ` +
        'Make it yours alone (chmod 700), or name another directory by LEASEHOLD_STATE_DIR.',
    )
  }
  const files = new NameFiles(directory, `${name}@${watch.machine}`)
  for (;;) {
    const last = files.highest()
    const entry = last === 0 ? undefined : files.read(last)
    if (entry !== undefined && entry.process !== '') {
      const liveness = watch.judge(entry.process, files.nowMs() - entry.renewedAtMs)
      // Only the unknown case waits. In the others, creating the next file decides between processes.
      const isFree = liveness === 'unknown' ? await goesUnrenewed(files, last, entry, timing) : liveness === 'gone'
      if (!isFree) throw inUse(name, entry)
    }
    const mine: Entry = { id: entry?.id ?? newId(), process: watch.self, label: watch.label }
    if (!files.create(last + 1, mine)) continue
    // We may have been slower than two others, and have filled a gap behind them: only the highest number counts.
    if (files.highest() !== last + 1) {
      files.remove(last + 1)
      continue
    }
    for (let old = last; old > 0 && files.remove(old); old -= 1);
    return hold(files, last + 1, mine, timing)
  }
}

/** Watches an entry for as long as its holder has to renew it. Also true if another entry counts by now. */
async function goesUnrenewed(
  files: NameFiles,
  number: number,
  { renewedAtMs, process }: ReadEntry,
  { freeAfterMs, confirmMs, renewEveryMs }: NameTiming,
): Promise<boolean> {
  const isOld = files.nowMs() - renewedAtMs > freeAfterMs
  const until = performance.now() + (isOld ? confirmMs : freeAfterMs)
  while (performance.now() < until) {
    await pause(Math.min(renewEveryMs / 4, until - performance.now()))
    const now = files.highest() === number ? files.read(number) : undefined
    if (now === undefined || now.process !== process) return true
    if (now.renewedAtMs !== renewedAtMs) return false
  }
  return true
}

function inUse(name: string, { label, process }: Entry): LeaseholdError {
  const holder = label ?? `the process ${process}`
  const message = `The runner name ${JSON.stringify(name)} is in use by ${holder}. Wait for its end, or choose another name.`
  return new LeaseholdError('HELD', message)
}

/** Renews the name until it is released. */
function hold(files: NameFiles, number: number, mine: Entry, { renewEveryMs }: NameTiming): HeldName {
  let isRenewing = false
  let isOver = false
  const end = (): void => {
    isOver = true
    clearInterval(timer)
  }
  const renew = async (): Promise<void> => {
    // A file system that does not answer must not pile up calls.
    if (isRenewing) return
    isRenewing = true
    if (!(await files.renew(number, mine, () => isOver))) end()
    isRenewing = false
  }
  const timer = setInterval(() => void renew(), renewEveryMs)
  timer.unref()
  return {
    id: mine.id as string,
    release() {
      end()
      files.letGo(number, mine)
    },
  }
}

/** The files of one name. */
class NameFiles {
  readonly #directory: string
  readonly #name: string

  constructor(directory: string, name: string) {
    this.#directory = directory
    this.#name = name
  }

  highest(): number {
    const numbers = readdirSync(this.#directory)
      .filter((file) => file.startsWith(`${this.#name}.`) && /^\d+$/.test(file.slice(this.#name.length + 1)))
      .map((file) => Number(file.slice(this.#name.length + 1)))
    return numbers.reduce((highest, number) => Math.max(highest, number), 0)
  }

  /** The entry of a file; undefined if the file is gone. A damaged file may still belong to a process. */
  read(number: number): ReadEntry | undefined {
    let descriptor: number
    try {
      // Opening asks a network file system for the newest time; a plain stat may be answered from its cache.
      descriptor = openSync(this.#file(number), 'r')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
    try {
      return { ...parseEntry(readFileSync(descriptor, 'utf8')), renewedAtMs: fstatSync(descriptor).mtimeMs }
    } finally {
      closeSync(descriptor)
    }
  }

  /** Creates the file whole, or not at all if it exists. */
  create(number: number, entry: Entry): boolean {
    return this.#withDraft(JSON.stringify(entry), (draft) => {
      try {
        linkSync(draft, this.#file(number))
        return true
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
        throw error
      }
    })
  }

  /** The time by the clock that dates the files. */
  nowMs(): number {
    return this.#withDraft('', (draft) => statSync(draft).mtimeMs)
  }

  /**
   * Writes the same text again, which dates the file anew. False: the file is gone or another process's, and so is the name.
   * Writes nothing if the name was released while the file was being opened: another file may be there by now.
   */
  async renew(number: number, mine: Entry, isOver: () => boolean): Promise<boolean> {
    try {
      const handle = await open(this.#file(number), 'r+')
      try {
        const text = JSON.stringify(mine)
        if ((await handle.readFile('utf8')) !== text) return false
        if (!isOver()) await handle.write(text, 0)
      } finally {
        await handle.close()
      }
    } catch (error) {
      return (error as NodeJS.ErrnoException).code !== 'ENOENT'
    }
    return true
  }

  letGo(number: number, mine: Entry): void {
    try {
      if (this.read(number)?.process !== mine.process) return
      this.#withDraft(JSON.stringify({ ...mine, process: '' }), (draft) => renameSync(draft, this.#file(number)))
    } catch {
      // The name frees itself when the process ends.
    }
  }

  remove(number: number): boolean {
    try {
      rmSync(this.#file(number))
      return true
    } catch {
      return false
    }
  }

  #withDraft<Result>(text: string, use: (draft: string) => Result): Result {
    const draft = join(this.#directory, `.${this.#name}.${process.pid}.${Math.random().toString(36).slice(2)}`)
    try {
      writeFileSync(draft, text, { mode: 0o600, flush: text !== '' })
      return use(draft)
    } finally {
      rmSync(draft, { force: true })
    }
  }

  #file(number: number): string {
    return join(this.#directory, `${this.#name}.${number}`)
  }
}

function parseEntry(text: string): Entry {
  try {
    const entry = JSON.parse(text) as Partial<Entry> | null
    if (typeof entry?.id === 'string' && typeof entry.process === 'string') return entry as Entry
  } catch {
    // Damaged.
  }
  return { id: undefined, process: '?', label: 'a process whose entry is damaged' }
}

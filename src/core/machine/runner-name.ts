import { linkSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { LeaseholdError } from '../errors.ts'
import { makeDirectory } from './make-directory.ts'

/** How processes recognise each other. */
export interface ProcessWatch {
  /** This process, as text. */
  readonly self: string
  /** The same for people, if there is more to say. */
  readonly label?: string
  /** Whether the process described by such a text has surely ended. If in doubt: no. */
  isGone(process: string): boolean
}

/** A runner name that is ours until `release`, or until this process ends. */
export interface HeldName {
  /** The runner id kept under the name: the same at every start. */
  readonly id: string
  release(): void
}

interface Entry {
  readonly id: string
  /** The process that has the name; empty: nobody. */
  readonly process: string
  /** The same for people. */
  readonly label?: string | undefined
}

const nameForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

/**
 * Takes a runner name for this process, and gives the id that is kept under it. Refuses a name that a live process has,
 * or that one may have: two processes with one identity would take each other's locks.
 *
 * Each holder of a name adds a file `NAME.N+1`, which only one process can create; the highest number counts, and is
 * never removed before a higher one stands.
 */
export function takeRunnerName(directory: string, name: string, watch: ProcessWatch, newId: () => string): HeldName {
  if (typeof name !== 'string' || !nameForm.test(name)) {
    const what = JSON.stringify(name)
    throw new LeaseholdError(
      'INVALID',
      `The runner name ${what} is not usable. Use up to 64 letters, digits, '.', '_', '-'.`,
    )
  }
  makeDirectory(directory)
  for (;;) {
    const last = highest(directory, name)
    const entry = last === 0 ? undefined : read(directory, name, last)
    if (entry !== undefined && entry.process !== '' && !watch.isGone(entry.process)) {
      throw new LeaseholdError(
        'HELD',
        `The runner name ${JSON.stringify(name)} is in use by ${entry.label ?? `the process ${entry.process}`}. ` +
          `If that has surely ended, delete ${fileOf(directory, name, last)}.`,
      )
    }
    const mine: Entry = { id: entry?.id ?? newId(), process: watch.self, label: watch.label }
    if (!create(directory, name, last + 1, mine)) continue
    // Somebody slower than two others may have filled a gap behind them: only the highest counts.
    if (highest(directory, name) !== last + 1) {
      rmSync(fileOf(directory, name, last + 1), { force: true })
      continue
    }
    for (let old = last; old > 0 && remove(directory, name, old); old -= 1);
    return { id: mine.id, release: () => letGo(directory, name, last + 1, mine) }
  }
}

function letGo(directory: string, name: string, number: number, mine: Entry): void {
  try {
    if (read(directory, name, number)?.process !== mine.process) return
    const draft = `${fileOf(directory, name, number)}.free`
    writeFileSync(draft, JSON.stringify({ ...mine, process: '' }), { mode: 0o600 })
    renameSync(draft, fileOf(directory, name, number))
  } catch {
    // The name frees itself when the process ends.
  }
}

/** Creates the file whole, or not at all if it exists. */
function create(directory: string, name: string, number: number, entry: Entry): boolean {
  const draft = join(directory, `.${name}.${process.pid}.${Math.random().toString(36).slice(2)}`)
  writeFileSync(draft, JSON.stringify(entry), { mode: 0o600 })
  try {
    linkSync(draft, fileOf(directory, name, number))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

function highest(directory: string, name: string): number {
  const numbers = readdirSync(directory)
    .filter((file) => file.startsWith(`${name}.`) && /^\d+$/.test(file.slice(name.length + 1)))
    .map((file) => Number(file.slice(name.length + 1)))
  return Math.max(0, ...numbers)
}

function read(directory: string, name: string, number: number): Entry | undefined {
  let text: string
  try {
    text = readFileSync(fileOf(directory, name, number), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    const entry = JSON.parse(text) as Partial<Entry> | null
    if (typeof entry?.id === 'string' && typeof entry.process === 'string') return entry as Entry
  } catch {
    // Told below.
  }
  const file = fileOf(directory, name, number)
  throw new LeaseholdError('INVALID', `${file} does not say who has the runner name. Delete it if nobody has.`)
}

function remove(directory: string, name: string, number: number): boolean {
  try {
    rmSync(fileOf(directory, name, number))
    return true
  } catch {
    return false
  }
}

function fileOf(directory: string, name: string, number: number): string {
  return join(directory, `${name}.${number}`)
}

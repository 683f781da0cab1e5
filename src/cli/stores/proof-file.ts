import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import type { StoreIdentity } from '../../api/stores/store-url.ts'
import { messageOf } from '../../core/errors.ts'
import { splitStoreKey } from '../../core/contract/scope.ts'
import type { LeaseProof } from '../../index.ts'
import type { ParsedArguments } from '../arguments.ts'
import { OutputError, UsageError } from '../exit-codes.ts'
import { identifyStores } from './store.ts'
import { quoted } from '../output/terminal-text.ts'

/** The file by which one command leaves a lock to another. */
export function proofFile(given: ParsedArguments, command: string): string {
  const file = given.texts.get('proof') ?? ''
  if (file !== '') return file
  throw new UsageError(
    `${command} needs --proof FILE: ${command === 'acquire' ? 'it is written there' : 'what acquire wrote'}.`,
  )
}

/**
 * Throws if there is such a file, which may be the only thing that can release another lock, or if none can be made: who
 * waits for a lock should not learn that at the end.
 */
export function refuseUnwritable(file: string): void {
  if (existsSync(file)) throw new UsageError(`${quoted(file)} exists. Release that lock first, or choose another FILE.`)
  try {
    accessSync(path.dirname(file), constants.W_OK | constants.X_OK)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new UsageError(`${quoted(file)} cannot be written there (${code}). Choose another FILE.`)
  }
}

/** A proof as it was read, with what else the file says. */
export interface ReadProof {
  readonly proof: LeaseProof
  readonly namespace: string
  /** Where the lock is. Files of older versions do not say. */
  readonly store: StoreIdentity | undefined
}

/** For its owner alone: whoever can read it can release the lock. It says which store the lock is in, but no password. */
export function writeProof(file: string, proof: LeaseProof, storeUrl: string): void {
  const text = JSON.stringify({ ...proof, store: identifyStores(storeUrl) })
  try {
    writeFileSync(file, `${text}\n`, { mode: 0o600, flag: 'wx' })
  } catch (error) {
    // On a full disk it is made and stays empty: nothing could be done with it, and it would be in the way.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') rmSync(file, { force: true })
    throw new OutputError(`The proof could not be written: ${messageOf(error)}`, { cause: error })
  }
}

/** A proof is about 400 bytes. */
const proofBytesMax = 65_536

/** The proof, the namespace of its lock, and its store. */
export function readProof(file: string): ReadProof {
  const text = readOwn(file)
  let read: (LeaseProof & { readonly store?: StoreIdentity }) | null
  try {
    read = JSON.parse(text) as typeof read
  } catch {
    throw new UsageError(noProof(file))
  }
  const namespace = splitStoreKey(typeof read?.key === 'string' ? read.key : '')?.namespace
  if (read === null || namespace === undefined) throw new UsageError(noProof(file))
  const { store, ...proof } = read
  if (store !== undefined && typeof store?.url !== 'string') throw new UsageError(noProof(file))
  return { proof, namespace, store }
}

/**
 * The text of a file that nobody else can have written: a proof says which store to call, and a stranger's would have us
 * call a server of theirs.
 */
function readOwn(file: string): string {
  let descriptor: number | undefined
  try {
    // A pipe without a writer would keep us waiting.
    descriptor = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
    const stats = fstatSync(descriptor)
    if (!stats.isFile() || stats.size > proofBytesMax) throw new UsageError(noProof(file))
    const user = process.geteuid?.()
    if (user !== undefined && stats.uid !== user) {
      throw new UsageError(`${quoted(file)} belongs to another user, who could name any store in it. It is not used.`)
    }
    if (user !== undefined && (stats.mode & 0o022) !== 0) {
      throw new UsageError(
        `Others can write to ${quoted(file)}. If it is what acquire wrote: chmod 600 ${quoted(file)}`,
      )
    }
    return readFileSync(descriptor, 'utf8')
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError(`${quoted(file)} cannot be read (${(error as NodeJS.ErrnoException).code}).`)
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}

export function removeProof(file: string): void {
  rmSync(file, { force: true })
}

function noProof(file: string): string {
  return `${quoted(file)} holds no proof of a lock. Give the file that leasehold acquire wrote.`
}

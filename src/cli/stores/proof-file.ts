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
import { isMadeByStranger } from '../../core/machine/foreign-files.ts'
import { splitStoreKey } from '../../core/contract/scope.ts'
import type { LeaseProof } from '../../index.ts'
import type { ParsedArguments } from '../arguments.ts'
import { OutputError, UsageError } from '../exit-codes.ts'
import { identifyStores } from './store.ts'
import { quoted } from '../output/terminal-text.ts'

/** The file of `--proof`, by which `acquire` hands a lock to later commands. */
export function proofFile(given: ParsedArguments, command: string): string {
  const file = given.texts.get('proof') ?? ''
  if (file !== '') return file
  throw new UsageError(
    `${command} needs --proof FILE: ${command === 'acquire' ? 'the file to write' : 'the file that acquire wrote'}.`,
  )
}

/**
 * Throws if the file exists, since it may be the only proof of another lock, or if it cannot be created. Called before
 * waiting for the lock, so that the user learns it at once.
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

/** The content of a proof file. */
export interface ReadProof {
  readonly proof: LeaseProof
  readonly namespace: string
  /** The store of the lock. Files of older versions do not name it. */
  readonly store: StoreIdentity | undefined
}

/** Writes a proof, readable for its owner alone: anybody who can read it can release the lock. Names the store, without passwords. */
export function writeProof(file: string, proof: LeaseProof, storeUrl: string): void {
  const text = JSON.stringify({ ...proof, store: identifyStores(storeUrl) })
  try {
    writeFileSync(file, `${text}\n`, { mode: 0o600, flag: 'wx' })
  } catch (error) {
    // On a full disk the file is created but stays empty: remove it, since it is useless and blocks the next attempt.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') rmSync(file, { force: true })
    throw new OutputError(`The proof could not be written: ${messageOf(error)}`, { cause: error })
  }
}

/** A proof is about 400 bytes. */
const proofBytesMax = 65_536

/** Reads a proof file. Throws if others could have written it, or if it holds no proof. */
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
 * The text of a file that only this user can have written: a proof names the store to call, so a forged one would send us to
 * an attacker's server.
 */
function readOwn(file: string): string {
  let descriptor: number | undefined
  try {
    // Non-blocking: opening a pipe without a writer would block.
    descriptor = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
    const stats = fstatSync(descriptor)
    if (!stats.isFile() || stats.size > proofBytesMax) throw new UsageError(noProof(file))
    const user = process.geteuid?.()
    if (user !== undefined && stats.uid !== user) {
      throw new UsageError(`${quoted(file)} belongs to another user, who could name any store in it. It is not used.`)
    }
    // A link to another proof of ours would have us release the wrong lock.
    if (isMadeByStranger(file)) {
      throw new UsageError(`${quoted(file)} is a link of another user, who could name any proof by it. It is not used.`)
    }
    // So would another name of it, which its maker cannot be told by.
    if (stats.nlink > 1) {
      throw new UsageError(
        `${quoted(file)} has a second name (a hard link), by which others could name any proof of yours. It is not used.`,
      )
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

/** Removes a proof file, if it is there. */
export function removeProof(file: string): void {
  rmSync(file, { force: true })
}

function noProof(file: string): string {
  return `${quoted(file)} holds no proof of a lock. Give the file that leasehold acquire wrote.`
}

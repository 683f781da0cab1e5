/** What is looked at before SQLite may touch a file: a stranger's file must never be written to. */
import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs'
import { uptime } from 'node:os'
import path from 'node:path'
import { LeaseholdError } from '../../core/errors.ts'
import { makeDirectory } from '../../core/machine/make-directory.ts'

/** Marks the file as ours, in the field SQLite's header has for that: "LsHd". */
export const applicationId = 0x4c734864

/** The format of the tables. A file of an older one is upgraded, one of a newer one is refused. */
export const formatVersion = 4

const headerBytes = 100
const magic = 'SQLite format 3\0'
const versionOffset = 60
const applicationOffset = 68

/** File systems on which locks between machines, or shared memory, cannot be relied upon. */
const networkFileSystems = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xfe534d42, 'SMB 2'],
  [0xff534d42, 'CIFS'],
  [0x01021997, '9p'],
  [0x65735546, 'FUSE'],
  [0x5346414f, 'AFS'],
  [0x6b414653, 'AFS'],
  [0x73757245, 'Coda'],
  [0x564c, 'NCP'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x47504653, 'GPFS'],
  [0x7461636f, 'OCFS2'],
  [0x01161970, 'GFS2'],
  [0x013111a8, 'IBRIX'],
])

/**
 * Makes the directory and an empty file that only this user can read, where they are missing. A file that is there is
 * not opened: see {@link isInUse}.
 */
export function createStoreFile(file: string): void {
  makeDirectory(path.dirname(file))
  try {
    closeSync(openSync(file, 'ax', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/**
 * Whether the file has been opened as a lock store before, as the directory of bells beside it tells. Then only SQLite
 * may open it: when a process closes a file of its own accord, the system takes all its locks on that file away, those of
 * SQLite too. Another process would take itself for the last user, remove the log, and grant what is held.
 */
export function isInUse(file: string): boolean {
  return existsSync(bellDirectory(file))
}

/** For how long the file can have lost nothing: since it was made and since the machine started. */
export function ageOfFileMs(file: string): number {
  const madeAt = statSync(file, { throwIfNoEntry: false })?.birthtimeMs
  // A power cut can undo the last moments; a file that is gone takes all with it.
  return madeAt === undefined ? 0 : Math.min(uptime() * 1000, Math.max(0, Date.now() - madeAt))
}

/** The directory of the bells of a store. Claims are secrets, so it is for this user alone. */
export function createBellDirectory(file: string): string {
  const directory = bellDirectory(file)
  makeDirectory(directory)
  return directory
}

export function bellDirectory(file: string): string {
  return `${file}.bells`
}

/** Throws UNAVAILABLE with reason `network-file-system` if the type, as of statfs(2), is that of one. */
export function refuseNetworkFileSystem(file: string, type: number): void {
  // Some systems give the type as a signed number.
  const name = networkFileSystems.get(type >>> 0)
  if (name === undefined) return
  throw new LeaseholdError(
    'UNAVAILABLE',
    `${file} is on a network file system (${name}), where SQLite cannot keep processes on several machines apart. ` +
      'Choose a local file, or a store for several machines; or, if one machine alone uses it, set networkFileSystem: true.',
    { reason: 'network-file-system' },
  )
}

/**
 * Throws unless the file is empty or one of ours. For a file that is not {@link isInUse in use}. Reads the header itself:
 * SQLite would first replay a log that may lie beside a stranger's database.
 */
export function refuseStrangers(file: string): void {
  const header = Buffer.alloc(headerBytes)
  const descriptor = openSync(file, 'r')
  let length: number
  try {
    length = readSync(descriptor, header, 0, headerBytes, 0)
  } finally {
    closeSync(descriptor)
  }
  if (length === 0) return
  if (length < headerBytes || header.toString('latin1', 0, magic.length) !== magic) {
    throw refusal('foreign', `${file} is not a SQLite database.`)
  }
  if (header.readUInt32BE(applicationOffset) !== applicationId) throw otherProgram(file)
  refuseNewerFormat(file, header.readUInt32BE(versionOffset))
}

/** Throws if the file has a format that only a newer Leasehold knows. The last word may still be in SQLite's log. */
export function refuseNewerFormat(file: string, version: number): void {
  if (version <= formatVersion) return
  throw new LeaseholdError(
    'UNAVAILABLE',
    `${file} has format ${version}; this version of Leasehold knows ${formatVersion} at most. Update Leasehold.`,
    { reason: 'newer-format' },
  )
}

/** For a database that somebody else has filled. */
export function otherProgram(file: string): LeaseholdError {
  return refusal('foreign', `${file} is a SQLite database of another program.`)
}

function refusal(reason: string, what: string): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', `${what} It was left as it is. Choose another file for locks.`, { reason })
}

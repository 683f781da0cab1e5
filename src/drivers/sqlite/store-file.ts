/**
 * The lock file in the file system. Nothing here opens a file that SQLite may have open: when a process closes any descriptor of a
 * file, the system drops all its locks on that file, SQLite's too. Another process would then take itself for the last user, remove
 * the log, and grant what is held. So the file is checked by its name, and read by SQLite only.
 */
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  linkSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs'
import path from 'node:path'
import { LeaseholdError } from '../../core/errors.ts'
import { makeDirectory } from '../../core/machine/directories.ts'

/** Marks the file as ours, in the field SQLite's header has for that: "LsHd". */
export const applicationId = 0x4c734864

/** The format of the tables. Files of any other format are refused. */
export const fileFormatVersion = 7

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
 * The one name that a file has under all its symbolic links: SQLite's log and the inboxes lie beside it. A file or directory
 * that is missing keeps its given name.
 */
export function realFile(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    const directory = path.dirname(file)
    return directory === file ? file : path.join(realFile(directory), path.basename(file))
  }
}

/**
 * Throws UNAVAILABLE with reason `foreign` if the name is a symbolic link that another user made in a directory to which everybody may
 * write: it could lead us to make any empty file of ours a lock file. Linux does not follow such links, but it does not see us resolve them.
 */
export function refusePlantedLink(file: string): void {
  const user = process.geteuid?.()
  const link = lstatSync(file, { throwIfNoEntry: false })
  if (user === undefined || link?.isSymbolicLink() !== true) return
  const directory = statSync(path.dirname(file))
  if ((directory.mode & 0o002) === 0 || [user, 0, directory.uid].includes(link.uid)) return
  throw new LeaseholdError(
    'UNAVAILABLE',
    `${file} is a symbolic link of another user, in a directory to which everybody may write. Choose a lock file in a ` +
      'directory to which only you can write.',
    { reason: 'foreign' },
  )
}

/** What SQLite keeps beside a file: it reads what it finds there, and writes to it. */
const sideFiles = ['-wal', '-shm', '-journal']

/**
 * Throws UNAVAILABLE with reason `foreign` if somebody who may not write to the lock file has made a log for it. SQLite would take what is in
 * there for content of the file, and write the ids of claims to it, which are secrets.
 */
export function refusePlantedLogs(file: string): void {
  const user = process.geteuid?.()
  const owner = statSync(file, { throwIfNoEntry: false })
  // Who may write to the file may make its logs.
  if (user === undefined || owner === undefined || (owner.mode & 0o022) !== 0) return
  for (const end of sideFiles) {
    const made = lstatSync(`${file}${end}`, { throwIfNoEntry: false })
    if (made === undefined || [user, 0, owner.uid].includes(made.uid)) continue
    throw new LeaseholdError(
      'UNAVAILABLE',
      `${file}${end} was made by another user, who may not write to ${file}. Delete it, or choose a lock file in a directory to which ` +
        'only you can write.',
      { reason: 'foreign' },
    )
  }
}

/** What {@link createStoreFile} puts behind the name of a file, and random letters behind that. */
const draftMark = '.new-'

/** Makes the directory and an empty file that only this user can read, where they are missing. */
export function createStoreFile(file: string): void {
  makeDirectory(path.dirname(file))
  if (statSync(file, { throwIfNoEntry: false }) !== undefined) return
  // Make it under another name: under its own, another thread might open the file before we close our descriptor.
  const draft = `${file}${draftMark}${randomBytes(8).toString('hex')}`
  ignoreIfThere(() => {
    try {
      closeSync(openSync(draft, 'wx', 0o600))
      linkSync(draft, file)
    } catch (error) {
      if (errorCode(error) === 'EEXIST') throw error
      // Not every file system has links, nor room for a longer name.
      closeSync(openSync(file, 'wx', 0o600))
    } finally {
      rmSync(draft, { force: true })
    }
  })
}

/** Another process may have been quicker. */
function ignoreIfThere(create: () => void): void {
  try {
    create()
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error
  }
}

function errorCode(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | null)?.code
}

/**
 * Throws UNAVAILABLE with reason `alias` if the file may have a second name. SQLite keeps its log beside the name by which
 * the file was opened, so that each name would have a log of its own, and each log its own holders.
 */
export function refuseAliases(file: string): void {
  if (isMountPoint(file)) {
    throw alias(
      `${file} is mounted by itself, so that SQLite would keep its log apart from that of the file's other name.`,
      'Mount the directory that holds the file instead.',
    )
  }
  if (!hasHardLinks(file)) return
  removeDrafts(file)
  if (hasHardLinks(file)) {
    throw alias(
      `${file} has a second name (a hard link), for which SQLite would keep another log.`,
      `Copy it instead, or delete the other name (find it with: find … -samefile ${file}).`,
    )
  }
}

function alias(what: string, advice: string): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', `${what} Two processes could then hold one lock. ${advice}`, {
    reason: 'alias',
  })
}

function hasHardLinks(file: string): boolean {
  return (statSync(file, { throwIfNoEntry: false })?.nlink ?? 1) > 1
}

/** Removes second names that {@link createStoreFile} left: its process was killed, or is making the file right now. */
function removeDrafts(file: string): void {
  const directory = path.dirname(file)
  const { ino } = statSync(file)
  for (const name of readdirSync(directory)) {
    const draft = path.join(directory, name)
    if (!name.startsWith(`${path.basename(file)}${draftMark}`)) continue
    if (statSync(draft, { throwIfNoEntry: false })?.ino === ino) rmSync(draft, { force: true })
  }
}

/** Whether something is mounted at this very name. Where the system lists no mounts, a different device shows most of them. */
function isMountPoint(file: string): boolean {
  if (statSync(file).dev !== statSync(path.dirname(file)).dev) return true
  let mounts: string
  try {
    mounts = readFileSync('/proc/self/mountinfo', 'utf8')
  } catch {
    return false
  }
  return mounts.split('\n').some((line) => unescapeMount(line.split(' ')[4] ?? '') === file)
}

/** Spaces and the like are written as octal numbers in the list of mounts. */
function unescapeMount(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_match, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))
}

/** The directory of the inboxes of a store. Claims are secrets, so it is for this user alone. */
export function createInboxDirectory(file: string): string {
  const directory = inboxDirectory(file)
  makeDirectory(directory)
  refuseStrangeInboxes(file)
  return directory
}

/**
 * Throws UNAVAILABLE with reason `foreign` if the inboxes are not in a directory that only this user, or the owner of the
 * lock file, can write to. In a directory that everybody may write to, somebody else may have made it, and inboxes hold the ids of
 * claims, which are secrets.
 */
export function refuseStrangeInboxes(file: string): void {
  const directory = inboxDirectory(file)
  const stats = lstatSync(directory, { throwIfNoEntry: false })
  if (stats === undefined) return
  const owners = [process.geteuid?.() ?? stats.uid, statSync(file).uid]
  const mayOthersWrite = process.platform !== 'win32' && (stats.mode & 0o022) !== 0
  if (stats.isDirectory() && owners.includes(stats.uid) && !mayOthersWrite) return
  throw new LeaseholdError(
    'UNAVAILABLE',
    `${directory} is not a directory of this user alone. Delete it if you know who made it, or choose a lock file in ` +
      'a directory to which only you can write.',
    { reason: 'foreign' },
  )
}

/** SQLite's log. It is there while anybody has the file open. */
export function logOf(file: string): string {
  return `${file}-wal`
}

/** The index of that log, which also has the locks of all who write to it. It is there while anybody has the file open. */
export function logIndexOf(file: string): string {
  return `${file}-shm`
}

/** The directory of the inboxes, beside the lock file. */
export function inboxDirectory(file: string): string {
  return `${file}.inboxes`
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

/** Throws if the tables of the file are not of this version's format. */
export function refuseOtherFormats(file: string, version: number): void {
  if (version === fileFormatVersion) return
  const isNewer = version > fileFormatVersion
  const advice = isNewer
    ? 'Update Leasehold.'
    : 'A version before the first release made it: stop those who use it, and delete it.'
  throw new LeaseholdError(
    'UNAVAILABLE',
    `${file} has format ${version}, and this version of Leasehold reads format ${fileFormatVersion}. ${advice}`,
    { reason: isNewer ? 'newer-format' : 'foreign' },
  )
}

/** The error for a file that SQLite cannot read, and in which locks were never kept. */
export function noDatabase(file: string): LeaseholdError {
  return refusal('foreign', `${file} is not a SQLite database.`)
}

/** The error for a database of another program. */
export function otherProgram(file: string): LeaseholdError {
  return refusal('foreign', `${file} is a SQLite database of another program.`)
}

function refusal(reason: string, what: string): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', `${what} It was left as it is. Choose another file for locks.`, { reason })
}

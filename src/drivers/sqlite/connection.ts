import { existsSync } from 'node:fs'
import { settleBirth } from './birth.ts'
import { databaseOpener, rollBack, type Database } from './database.ts'
import { isNoDatabase } from './faults.ts'
import { identify, isSameFile, type FileIdentity } from './file-identity.ts'
import schema from './schema.sql.generated.ts'
import type { ContentionHint } from './transaction-writer.ts'
import { replacedFile } from './replaced-file.ts'
import { prepareStatements, type Statements } from './statements.ts'
import {
  applicationId,
  inboxDirectory,
  createInboxDirectory,
  createStoreFile,
  fileFormatVersion,
  logIndexOf,
  logOf,
  noDatabase,
  otherProgram,
  refuseAliases,
  refusePlantedLogs,
  refuseNetworkFileSystem,
  refuseOtherFormats,
  refuseStrangeInboxes,
} from './store-file.ts'
import type { SqliteEnvironment } from './sqlite-environment.ts'
import { keepsDeletedIndex } from './unfinished-statements.ts'

/** Pages in the log before they are carried over into the file. Seldom enough to be cheap, often enough to be short. */
const checkpointEveryPages = 1000

/** The page size of a new file. Small, as each plain lock writes a page; rows of up to 488 bytes fit into one. */
const pageBytes = 2048

/** An open lock file and its prepared statements. */
export interface SqliteConnection {
  readonly database: Database
  readonly statements: Statements
  readonly contention: ContentionHint
  /** Which file it is, and which log and index SQLite has beside it: their names may lead to others later. */
  readonly identity: FileIdentity
  readonly log: FileIdentity
  readonly logIndex: FileIdentity
}

/** The part of the environment that opening a file needs. */
type OpeningEnvironment = Pick<SqliteEnvironment, 'fileSystemType' | 'binding' | 'boot' | 'clock' | 'fewHoldersMax'>

/**
 * Opens the file, and first makes it a lock file if it is new, or one of this format if it is older. Throws what SQLite
 * throws; SQLITE_BUSY among it. `refuseIfInUse` is called for a file that is new, or a copy, or has no log, and throws while
 * somebody may still use the one that was there before.
 */
export function openConnection(
  file: string,
  environment: OpeningEnvironment,
  checkFileSystem: boolean,
  refuseIfInUse: () => void = () => {},
): SqliteConnection {
  const open = databaseOpener(environment.binding)
  createStoreFile(file)
  if (checkFileSystem) refuseNetworkFileSystem(file, environment.fileSystemType(file))
  refuseAliases(file)
  refusePlantedLogs(file)
  refuseStrangeInboxes(file)
  const identity = identify(file)
  // Before SQLite makes new ones: while a process uses the file, its log and index are missing only if they were deleted.
  if (!existsSync(logOf(file)) || !existsSync(logIndexOf(file))) refuseIfInUse()
  if (keepsDeletedIndex(file, logIndexOf(file))) throw replacedFile(file)
  const database = open(file)
  try {
    // `retryWhileBusy` waits instead, without blocking the event loop.
    database.exec('pragma busy_timeout = 0')
    refuseStrangers(database, file)
    // Has an effect only on a file that is still empty.
    database.exec(`pragma page_size = ${pageBytes}`)
    createTables(database, file, refuseIfInUse)
    createInboxDirectory(file)
    refuseOtherFormats(file, formatOf(database))
    addLaterColumns(database)
    const mode = database.query('pragma journal_mode = wal').get()?.['journal_mode']
    if (mode !== 'wal') throw new Error(`SQLite cannot keep a log beside this file (journal mode ${String(mode)})`)
    database.exec(`pragma synchronous = normal; pragma wal_autocheckpoint = ${checkpointEveryPages}`)
    // If the file was replaced meanwhile, SQLite may have opened either.
    const found = identify(file)
    if (found === undefined || !isSameFile(identity, found)) throw replacedFile(file)
    settleBirth(database, found, environment, refuseIfInUse)
    const statements = prepareStatements(database, environment.fewHoldersMax)
    const log = identify(logOf(file))
    const logIndex = identify(logIndexOf(file))
    // Deleted, but still open in this process: SQLite has joined an earlier connection there, and other processes would not.
    if (log === undefined || logIndex === undefined) throw replacedFile(file)
    return { database, statements, contention: { expected: false }, identity: found, log, logIndex }
  } catch (error) {
    database.close()
    throw error
  }
}

/**
 * Throws unless the file is empty or a lock file. SQLite reads it, and so may first finish or roll back what a crash of another
 * program left half done, as any reader of that file would.
 */
function refuseStrangers(database: Database, file: string): void {
  try {
    // In this order, as another process may make it a lock file in between.
    if (!isEmpty(database) && !isMarked(database)) throw otherProgram(file)
  } catch (error) {
    // With inboxes beside it, it is a lock file that was damaged.
    throw isNoDatabase(error) && !existsSync(inboxDirectory(file)) ? noDatabase(file) : error
  }
}

/** Makes and marks the tables in one transaction, before a new file has a log: so the marks are in the file itself, for all to see. */
export function createTables(database: Database, file: string, refuseIfInUse: () => void = () => {}): void {
  if (isMarked(database)) return refuseOtherFormats(file, formatOf(database))
  database.exec('begin immediate')
  try {
    // Another process may have been quicker.
    if (!isMarked(database)) {
      if (database.query('select 1 as used from sqlite_master limit 1').get() !== undefined) throw otherProgram(file)
      refuseIfInUse()
      database.exec(`${schema}; pragma application_id = ${applicationId}; pragma user_version = ${fileFormatVersion}`)
    }
    database.exec('commit')
  } catch (error) {
    rollBack(database)
    throw error
  }
}

/** Adds what an earlier version of this format did not have. That version goes on beside this one: it names the columns that it knows. */
function addLaterColumns(database: Database): void {
  const isKnown = (): boolean =>
    database.query(`select 1 as known from pragma_table_info('endings') where name = 'cause'`).get() !== undefined
  if (isKnown()) return
  database.exec('begin immediate')
  try {
    // Another process may have been quicker.
    if (!isKnown()) database.exec('alter table endings add column cause text')
    database.exec('commit')
  } catch (error) {
    rollBack(database)
    throw error
  }
}

function formatOf(database: Database): number {
  return database.query('pragma user_version').get()?.['user_version'] as number
}

function isEmpty(database: Database): boolean {
  return database.query('pragma page_count').get()?.['page_count'] === 0
}

function isMarked(database: Database): boolean {
  return database.query('pragma application_id').get()?.['application_id'] === applicationId
}

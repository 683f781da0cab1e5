import { databaseOpener, type Database } from './database.ts'
import schema from './schema.sql.generated.ts'
import type { Crowd } from './ledger.ts'
import { prepareStatements, type Statements } from './statements.ts'
import {
  applicationId,
  createBellDirectory,
  createStoreFile,
  formatVersion,
  isInUse,
  otherProgram,
  refuseNetworkFileSystem,
  refuseNewerFormat,
  refuseStrangers,
} from './store-file.ts'
import type { SqliteSurroundings } from './surroundings.ts'
import { upgrade } from './upgrade.ts'

/** Pages in the log before they are carried over into the file. Seldom enough to be cheap, often enough to be short. */
const checkpointEveryPages = 1000

/** Of a new file. A plain lock writes a page each time, so it is small; a row of up to 488 bytes is whole in it. */
const pageBytes = 2048

/** An open lock file and its prepared statements. */
export interface Connection {
  readonly database: Database
  readonly statements: Statements
  readonly crowd: Crowd
}

/** What of the surroundings matters for opening a file. */
type Place = Pick<SqliteSurroundings, 'fileSystemType' | 'binding'>

/**
 * Opens the file, and first makes it a lock file if it is new, or one of this format if it is older. Throws what SQLite
 * throws; SQLITE_BUSY among it.
 */
export function connect(file: string, place: Place, checkFileSystem: boolean): Connection {
  const open = databaseOpener(place.binding)
  createStoreFile(file)
  if (checkFileSystem) refuseNetworkFileSystem(file, place.fileSystemType(file))
  if (!isInUse(file)) refuseStrangers(file)
  const database = open(file)
  try {
    // Waiting for others is ours to do, without blocking the event loop.
    database.exec('pragma busy_timeout = 0')
    // Heeded only by a file that is still empty.
    database.exec(`pragma page_size = ${pageBytes}`)
    createTables(database, file)
    // Says to all who come later, in this process too, that the file is in use.
    createBellDirectory(file)
    refuseNewerFormat(file, formatOf(database))
    const mode = database.query('pragma journal_mode = wal').get()?.['journal_mode']
    if (mode !== 'wal') throw new Error(`SQLite cannot keep a log beside this file (journal mode ${String(mode)})`)
    database.exec(`pragma synchronous = normal; pragma wal_autocheckpoint = ${checkpointEveryPages}`)
    return { database, statements: prepareStatements(database), crowd: { expected: false } }
  } catch (error) {
    database.close()
    throw error
  }
}

/** All in one transaction, and before a new file has a log: the marks then stand in the file itself, for all to see. */
export function createTables(database: Database, file: string): void {
  if (isMarked(database) && formatOf(database) >= formatVersion) return
  database.exec('begin immediate')
  try {
    // Another process may have been quicker.
    if (!isMarked(database)) {
      if (database.query('select 1 as used from sqlite_master limit 1').get() !== undefined) throw otherProgram(file)
      database.exec(`${schema}; pragma application_id = ${applicationId}; pragma user_version = ${formatVersion}`)
    } else if (formatOf(database) < formatVersion) {
      upgrade(database, formatOf(database))
      database.exec(`pragma user_version = ${formatVersion}`)
    }
    database.exec('commit')
  } catch (error) {
    rollBack(database)
    throw error
  }
}

function formatOf(database: Database): number {
  return database.query('pragma user_version').get()?.['user_version'] as number
}

function isMarked(database: Database): boolean {
  return database.query('pragma application_id').get()?.['application_id'] === applicationId
}

/** SQLite may have rolled back by itself. */
export function rollBack(database: Database): void {
  try {
    database.exec('rollback')
  } catch {
    // Then there is nothing to roll back.
  }
}

/** The table of the locks on one server: opened, read and written, in few statements. */
import type { KeyPage, ListQuery } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { ReadDocuments } from '../document/polled-driver.ts'
import { listedKey, type KeyDocument } from '../document/key-document.ts'
import { storedDocument } from './stored-document.ts'
import { claimsPerPage, cutKey, pageLimit } from '../kit/paging.ts'
import { retryingWithin } from '../kit/retrying.ts'
import type { MysqlAnswer, MysqlClients, MysqlConnection } from './clients.ts'
import { isTableMissing, isWorthReadingAgain, mysqlError, type UnfitSession } from './faults.ts'
import { RecentRows } from './recent-rows.ts'
import {
  birthOf,
  commitsByHand,
  copyNameOf,
  databaseOf,
  inOpenTransaction,
  isSwitchedOn,
  refuseUnfitServer,
  serverWarnings,
  sessionFault,
  fixedClock,
  textOfBytes,
  textsByName,
  type ServerTexts,
} from './server-checks.ts'
import {
  birthName,
  grantedAt,
  hourOf,
  MysqlStatements,
  noRevision,
  pastAllBytes,
  serverStatus,
  serverVariables,
  sessionDatabase,
  sessionFlags,
  type MysqlGrant,
  type MysqlGrantTerms,
  type MysqlGuess,
  type MysqlRow,
  type ReadClock,
} from './statements.ts'

/** A document as it is stored, and its newest revision. */
export interface StoredDocument {
  readonly document: KeyDocument
  readonly revision: string
}

/** What one reading found. */
export interface MysqlReading {
  /** The server's clock, in microseconds since 1970. */
  readonly clock: number
  readonly stored: ReadonlyMap<string, StoredDocument>
  readonly birth: string
}

export interface MysqlStoreOptions {
  readonly table: string
  readonly timeoutMs: number
  readonly clockForTests?: (() => number) | undefined
}

/** Longer lists of names make MariaDB compare by a temporary table instead of by the index. */
const namesMax = 500
const revisionLength = noRevision.length
/** A table without its first row is given one and read again; on a session that commits by hand, twice. */
const emptyTriesMax = 4

export class MysqlStore {
  readonly warnings: readonly string[]
  readonly #clients: MysqlClients
  readonly #options: MysqlStoreOptions
  readonly #statements: MysqlStatements
  readonly #variables: ServerTexts
  readonly #isMariadb: boolean
  /** MySQL does not tell a reading whether it is inside a transaction, where it may be old. Only others leave one open. */
  readonly #asksForFlags: boolean
  /** The rows of this driver's claims. */
  readonly recent = new RecentRows()
  /** The last reading; undefined: no reading yet, or sessions commit by hand, which a guess cannot mend. */
  #lastReading: ReadClock | undefined
  #commitsByHand = false
  /** Long documents that were polled last: they are read again only once they have changed. */
  readonly #polled = new Map<string, StoredDocument>()
  #tidiedAt = -Infinity
  #tidying: Promise<void> | undefined

  private constructor(clients: MysqlClients, options: MysqlStoreOptions, variables: ServerTexts, database: string) {
    this.#clients = clients
    this.#options = options
    this.#variables = variables
    this.#isMariadb = /mariadb/i.test(variables.get('version') ?? '')
    this.#asksForFlags = !this.#isMariadb && !clients.isOwned
    this.#statements = new MysqlStatements(database, options.table, {
      isMariadb: this.#isMariadb,
      isGalera: isSwitchedOn(variables.get('wsrep_on')),
      hasLogFormat: variables.has('binlog_format'),
    })
    this.warnings = serverWarnings(variables)
  }

  /** Connects, makes what is missing, and refuses a server that would not be safe. */
  static async open(clients: MysqlClients, options: MysqlStoreOptions): Promise<MysqlStore> {
    const { timeoutMs } = options
    const { variables, database } = await retryingWithin(
      timeoutMs,
      (leftMs) =>
        using(clients, leftMs, async (connection) => ({
          variables: textsByName(await connection.query(serverVariables, leftMs)),
          database: databaseOf(await connection.query(sessionDatabase, leftMs)),
        })),
      isWorthReadingAgain,
    )
    refuseUnfitServer(variables)
    const store = new MysqlStore(clients, options, variables, database)
    await store.#makeTable()
    return store
  }

  // ---- reading and writing

  /** Reads rows, and makes sure that the session is fit for a write that follows. */
  async read(
    connection: MysqlConnection,
    names: readonly string[],
    withinMs: number,
    known: ReadonlyMap<string, StoredDocument> = new Map(),
    tries = 1,
  ): Promise<MysqlReading> {
    const documents = new Map<string, StoredDocument>()
    const askedAt = performance.now()
    let [clock, birth] = [Infinity, '']
    for (let from = 0; from === 0 || from < names.length; from += namesMax) {
      const asked = names.slice(from, from + namesMax)
      const sql = this.#statements.read(asked, [...new Set(asked.flatMap((name) => known.get(name)?.revision ?? []))])
      const answer = await this.#readFit(connection, sql, withinMs).catch(async (error: unknown) => {
        if (!isTableMissing(error)) throw error
        await connection.query(this.#statements.create(), withinMs)
        return this.#readFit(connection, sql, withinMs)
      })
      for (const [name, revision, lastFence, document, micros] of answer.rows) {
        if (textOfBytes(name) === birthName) {
          birth = textOfBytes(document)
          clock = Math.min(clock, Number(textOfBytes(micros)))
        } else {
          const key = textOfBytes(name)
          const same = document === null ? known.get(key) : undefined
          // The revision of another key: a statement gives one to all its rows.
          if (document === null && same?.revision !== textOfBytes(revision))
            return this.read(connection, names, withinMs)
          const stored = same ?? {
            document: storedDocument(textOfBytes(document), Number(textOfBytes(lastFence))),
            revision: textOfBytes(revision),
          }
          documents.set(key, stored)
        }
      }
    }
    if (birth !== '') {
      this.#lastReading = { clock: this.#clockOf(clock), askedAt }
      return { clock: this.#lastReading.clock, stored: documents, birth }
    }
    // Somebody has emptied the table: its data is young again.
    await connection.query(this.#statements.begin(JSON.stringify({})), withinMs)
    if (tries < emptyTriesMax) return this.read(connection, names, withinMs, known, tries + 1)
    throw new LeaseholdError(
      'UNAVAILABLE',
      `MySQL: The table ${this.#options.table} loses its rows. Who deletes them?`,
      {
        reason: 'mysql',
      },
    )
  }

  async #readFit(connection: MysqlConnection, sql: string, withinMs: number): Promise<MysqlAnswer> {
    const startedAt = performance.now()
    const answer = await connection.query(sql, withinMs)
    const session = answer.rows.find(([name]) => textOfBytes(name) === birthName)?.[5]
    // Without the first row nothing is known of the session until that one has been made.
    if (session === undefined) return answer
    if (commitsByHand(textOfBytes(session))) {
      this.#commitsByHand = true
      await connection.commitAtOnce(withinMs)
      return this.#readFit(connection, sql, withinMs)
    }
    const tookMs = performance.now() - startedAt
    const isInTransaction = async (): Promise<boolean> =>
      (await connection.query(sessionFlags, withinMs)).isInTransaction
    const fault = sessionFault(textOfBytes(session), tookMs)
    const unfit = fault ?? (this.#asksForFlags && (await isInTransaction()) ? inOpenTransaction() : undefined)
    if (unfit === undefined) return answer
    throw this.#unfit(connection, unfit)
  }

  /** The connection is closed once it is given back, which undoes what is not committed. */
  #unfit(connection: MysqlConnection, error: UnfitSession): UnfitSession {
    connection.spoil()
    return error
  }

  /** Writes rows, and says which: those whose newest revision was the expected one. */
  async write(connection: MysqlConnection, rows: readonly MysqlRow[], withinMs: number): Promise<readonly boolean[]> {
    const {
      rows: found,
      affectedRows,
      isInTransaction,
    } = await connection.query(this.#statements.write(rows), withinMs)
    if (isInTransaction) throw this.#unfit(connection, inOpenTransaction())
    // A replaced row counts twice, one that was left alone at most once.
    if (affectedRows === 2 * rows.length && rows.every(({ expected }) => expected !== noRevision))
      return rows.map(() => true)
    const kept = this.#isMariadb ? found : undefined
    return this.areWritten(connection, rows, withinMs, kept)
  }

  /** Whether rows have, or had, these revisions. Others may have written over them since: a row keeps its last few revisions. */
  async areWritten(
    connection: MysqlConnection,
    rows: readonly { readonly name: string; readonly revision: string }[],
    withinMs: number,
    kept?: MysqlAnswer['rows'],
  ): Promise<readonly boolean[]> {
    const names = rows.map(({ name }) => name)
    const found = kept ?? (await connection.query(this.#statements.revisions(names), withinMs)).rows
    const revisions = new Map(found.map(([name, text]) => [textOfBytes(name), textOfBytes(text)]))
    return rows.map(({ name, revision }) => isAmong(revision, revisions.get(name) ?? ''))
  }

  // ---- without a reading

  /** The last reading; undefined: rows must be read before they are changed. */
  get lastReading(): ReadClock | undefined {
    return this.#commitsByHand ? undefined : this.#lastReading
  }

  /** Grants claims on idle rows. The clock of the grants, in microseconds, and whether each was written. */
  async grant(
    connection: MysqlConnection,
    grants: readonly MysqlGrant[],
    terms: Omit<MysqlGrantTerms, 'clockForTests'>,
    withinMs: number,
  ): Promise<{ readonly clock: number; readonly areWritten: readonly boolean[] }> {
    const startedAt = performance.now()
    const sql = this.#statements.grant(grants, { ...terms, clockForTests: this.#clockOf(undefined) })
    const answer = await connection.query(sql, withinMs)
    const tookMs = performance.now() - startedAt
    const areWritten = await this.#guessed(connection, grants, terms.revision, answer, withinMs)
    const { clock, lagMs } = grantedAt(answer.lastInsertId, terms.since)
    const fault = areWritten.includes(true) ? fixedClock(lagMs, tookMs) : undefined
    if (fault !== undefined) throw this.#unfit(connection, fault)
    return { clock, areWritten }
  }

  /** Empties rows whose only claim is released before its lease is over. Whether each was written. */
  async release(
    connection: MysqlConnection,
    guesses: readonly MysqlGuess[],
    terms: { readonly revision: string; readonly until: number },
    withinMs: number,
  ): Promise<readonly boolean[]> {
    const sql = this.#statements.release(guesses, { ...terms, clockForTests: this.#clockOf(undefined) })
    const answer = await connection.query(sql, withinMs)
    return this.#guessed(connection, guesses, terms.revision, answer, withinMs)
  }

  /** Which rows a statement has changed that names no others. */
  async #guessed(
    connection: MysqlConnection,
    guesses: readonly MysqlGuess[],
    revision: string,
    { affectedRows, isInTransaction }: MysqlAnswer,
    withinMs: number,
  ): Promise<readonly boolean[]> {
    if (isInTransaction) connection.spoil()
    if (affectedRows === 0) return guesses.map(() => false)
    // What was written is undone, as the connection is closed.
    if (isInTransaction) throw inOpenTransaction()
    if (affectedRows === guesses.length) return guesses.map(() => true)
    const written = guesses.map(({ name }) => ({ name, revision }))
    return this.areWritten(connection, written, withinMs).catch((error: unknown) => {
      // No error of the statement itself, which would have changed nothing.
      throw mysqlError(error)
    })
  }

  /** Work on a connection of its own; a read is repeated where that may help. */
  reading<Result>(
    withinMs: number,
    work: (connection: MysqlConnection, leftMs: number) => Promise<Result>,
  ): Promise<Result> {
    return retryingWithin(
      withinMs,
      (leftMs) => using(this.#clients, leftMs, (connection) => work(connection, leftMs)),
      isWorthReadingAgain,
    )
  }

  lend(withinMs: number): Promise<MysqlConnection> {
    return this.#clients.lend(withinMs)
  }

  /** The most bytes of documents that go into one statement: each is written in twice as many characters. */
  get documentBytesMax(): number {
    return Number(this.#variables.get('max_allowed_packet') ?? 2 ** 20) / 4
  }

  #clockOf<Micros>(micros: Micros): Micros | number {
    const { clockForTests } = this.#options
    return clockForTests === undefined ? micros : clockForTests() * 1000
  }

  // ---- for the driver

  async readDocuments(keys: readonly string[]): Promise<ReadDocuments> {
    const { timeoutMs } = this.#options
    const { clock, stored } = await this.reading(timeoutMs, (connection, leftMs) =>
      this.read(connection, keys, leftMs, this.#polled),
    )
    if (this.#polled.size > polledMax) this.#polled.clear()
    for (const key of keys) {
      const row = stored.get(key)
      if ((row?.document.claims?.length ?? 0) > fewClaims) this.#polled.set(key, row as StoredDocument)
      else this.#polled.delete(key)
    }
    return {
      now: Math.floor(clock / 1000),
      documents: new Map([...stored].map(([key, { document }]) => [key, document])),
    }
  }

  /** First the names of a page, then so many documents as fit. */
  async page(query: ListQuery): Promise<KeyPage> {
    const limit = pageLimit(query)
    return this.reading(this.#options.timeoutMs, async (connection, leftMs) => {
      const names = await this.#names(connection, query, limit + 1, leftMs)
      let [count, claims] = [0, 0]
      while (count < Math.min(names.length, limit) && claims < claimsPerPage) claims += names[count++]?.claims ?? 0
      const shown = names.slice(0, count).map(({ name }) => name)
      const { clock, stored } = await this.read(connection, shown, leftMs)
      const keys = shown.flatMap((key) => {
        const listed = listedKey(key, stored.get(key)?.document, query)
        return listed === undefined || listed.claims.length === 0 ? [] : [cutKey(listed, query)]
      })
      const page = { now: Math.floor(clock / 1000), keys }
      return count < names.length ? { ...page, next: shown.at(-1) ?? '' } : page
    })
  }

  async #names(
    connection: MysqlConnection,
    { key, prefix = '', after = birthName }: ListQuery,
    limit: number,
    leftMs: number,
  ): Promise<readonly { readonly name: string; readonly claims: number }[]> {
    if (key !== undefined) return [{ name: key, claims: 1 }]
    const bounds = prefix === '' ? {} : { from: prefix, before: pastAllBytes(prefix) }
    const sql = this.#statements.names({ after: after === '' ? birthName : after, ...bounds, limit })
    const { rows } = await connection.query(sql, leftMs)
    return rows.map(([name, claims]) => ({ name: textOfBytes(name), claims: Number(textOfBytes(claims)) }))
  }

  /**
   * For how long the data has been kept, by the server's clock: since the table was made or first seen on this server, and since the
   * server started, which may have been on an older copy of its files.
   */
  dataAgeMs(): Promise<number> {
    return this.reading(this.#options.timeoutMs, async (connection, leftMs) => {
      const { clock, birth } = await this.read(connection, [], leftMs)
      const now = clock / 1000
      const status = textsByName(await connection.query(serverStatus, leftMs))
      const { rows } = await connection.query(this.#statements.table(), leftMs)
      const madeAt = textOfBytes(rows[0]?.[1])
      const place = `${copyNameOf(this.#variables, status)} ${madeAt}`
      const { since = Infinity, place: bornAt } = birthOf(birth)
      if (bornAt === place && since <= now) {
        const startedAt = now - (Number(status.get('uptime') ?? 0) - 1) * 1000
        return Math.max(0, Math.floor(now - Math.max(since, startedAt)))
      }
      await connection.query(this.#statements.begin(JSON.stringify({ since: now, place })), leftMs)
      return 0
    })
  }

  /** Now and then removes rows in which nothing matters any more. Nobody waits for that. */
  tidyNowAndThen(): void {
    const now = performance.now()
    if (now - this.#tidiedAt < tidyEveryMs || this.#options.clockForTests !== undefined) return
    this.#tidiedAt = now
    this.#tidying = this.tidy().catch(() => {})
  }

  async tidy(): Promise<void> {
    const { timeoutMs } = this.#options
    await this.reading(timeoutMs, async (connection, leftMs) => {
      const hour = hourOf((await this.read(connection, [], leftMs)).clock / 1000)
      for (let rounds = 0; rounds < tidyRounds; rounds += 1) {
        const { rows } = await connection.query(this.#statements.forgettable(hour, namesMax), leftMs)
        const names = rows.map(([name]) => textOfBytes(name))
        if (names.length > 0) await connection.query(this.#statements.forget(names, hour), leftMs)
        if (names.length < namesMax) return
      }
    })
  }

  async close(): Promise<void> {
    await this.#clients.close()
    await this.#tidying
  }

  async #makeTable(): Promise<void> {
    const { table, timeoutMs } = this.#options
    const { rows } = await this.reading(timeoutMs, async (connection, leftMs) => {
      await this.read(connection, [], leftMs)
      return connection.query(this.#statements.table(), leftMs)
    })
    const engine = textOfBytes(rows[0]?.[0])
    if (engine === '' || engine.toLowerCase() === 'innodb') return
    throw new LeaseholdError(
      'UNSUPPORTED',
      `The table ${table} has engine ${engine}. Locks need InnoDB: alter the table.`,
    )
  }
}

const tidyEveryMs = 600_000
const tidyRounds = 20
/** Documents with more claims are kept from one poll to the next, of so many keys. */
const fewClaims = 4
const polledMax = 500

/** Work on a lent connection. */
async function using<Result>(
  clients: MysqlClients,
  withinMs: number,
  work: (connection: MysqlConnection) => Promise<Result>,
): Promise<Result> {
  const connection = await clients.lend(withinMs)
  try {
    return await work(connection)
  } finally {
    await connection.giveBack(withinMs)
  }
}

function isAmong(revision: string, kept: string): boolean {
  for (let at = 0; at < kept.length; at += revisionLength) if (kept.startsWith(revision, at)) return true
  return false
}

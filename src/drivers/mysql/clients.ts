/** Connections to a server by `mysql2` or `mariadb`: a package's pool by shape, or one of our own for a URL. */
import { withTimeout } from '../kit/call-timeout.ts'
import { noMysqlAnswer, sparesMysqlConnection, withoutStatement } from './faults.ts'

/** A statement, with options that overrule those of the client. */
export type MysqlQuery = { readonly sql: string } & Readonly<Record<string, unknown>>

/** A connection that a pool lent. */
export interface MysqlPoolConnection {
  query(query: MysqlQuery): Promise<unknown>
  release(): unknown
  destroy(): unknown
}

/** The part of a pool of `mysql2/promise` or `mariadb` that is used here. */
export interface MysqlPromisePool {
  getConnection(): Promise<MysqlPoolConnection>
  end(): Promise<unknown>
}

/** A pool of `mysql2`, which gives the same pool with promises. */
export interface MysqlCallbackPool {
  promise(): MysqlPromisePool
}

/** The database to use: a URL, a pool of `mysql2` or `mysql2/promise`, or a pool of `mariadb`. */
export type MysqlSource = string | MysqlPromisePool | MysqlCallbackPool

/** A value of an answer: the bytes of its text. @internal */
export type MysqlValue = Buffer | null
/** @internal */
export interface MysqlAnswer {
  readonly rows: readonly (readonly MysqlValue[])[]
  readonly affectedRows: number
  /** What `last_insert_id(…)` was given last by the statement. */
  readonly lastInsertId: number
  /** Whether the server said, with the answer to a write, that a transaction is open. */
  readonly isInTransaction: boolean
}

interface TypeCastField {
  buffer(): Buffer | null
}

/**
 * Every value as bytes, by place: whatever character set, number formats and casts the client is set up for. Without values, and said
 * so: mysql2 would otherwise look for question marks in every statement, which took longer than to make it.
 */
const plainAnswers = {
  values: null,
  rowsAsArray: true,
  nestTables: false,
  namedPlaceholders: false,
  typeCast: (field: TypeCastField): MysqlValue => field.buffer(),
}

/** Connections of a pool, each lent for one piece of work. @internal */
export class MysqlClients {
  readonly #pool: MysqlPromisePool
  readonly #isOwned: boolean
  /** Connections that were not given back yet. */
  readonly #lent = new Set<MysqlPoolConnection>()

  constructor(pool: MysqlPromisePool, isOwned: boolean) {
    this.#pool = pool
    this.#isOwned = isOwned
  }

  /** Whether nobody else uses these connections. */
  get isOwned(): boolean {
    return this.#isOwned
  }

  /** Lends a connection; rejects if none came free in time. */
  async lend(withinMs: number): Promise<MysqlConnection> {
    const lending = this.#pool.getConnection()
    try {
      const connection = await withTimeout(lending, withinMs, () => 'No connection of the pool came free in time')
      this.#lent.add(connection)
      return new MysqlConnection(connection, () => this.#lent.delete(connection))
    } catch (error) {
      // One that comes later goes straight back.
      lending.then(
        (connection) => connection.release(),
        () => {},
      )
      throw error
    }
  }

  /** Closes what was opened here. A pool that was handed in stays open, without our connections that still wait for an answer. */
  async close(): Promise<void> {
    for (const connection of this.#lent) connection.destroy()
    if (this.#isOwned) await withTimeout(this.#pool.end(), closeMs, noMysqlAnswer).catch(() => {})
  }
}

const closeMs = 2000

/** A connection that was lent, until {@link giveBack}. @internal */
export class MysqlConnection {
  readonly #connection: MysqlPoolConnection
  readonly #onBack: () => void
  #isSpoilt = false
  /** Whether transactions are to be committed by hand again once the connection is given back. */
  #hadAutocommitOff = false

  constructor(connection: MysqlPoolConnection, onBack: () => void) {
    this.#connection = connection
    this.#onBack = onBack
  }

  async query(sql: string, withinMs: number): Promise<MysqlAnswer> {
    try {
      const asked = this.#connection.query({ sql, ...plainAnswers })
      return answerOf(await withTimeout(asked, withinMs, noMysqlAnswer), this.#connection)
    } catch (error) {
      this.#isSpoilt ||= !sparesMysqlConnection(error)
      throw withoutStatement(error)
    }
  }

  /** Each statement is a transaction of its own until the connection is given back. What was left open on it is undone. */
  async commitAtOnce(withinMs: number): Promise<void> {
    await this.query('rollback', withinMs)
    await this.query('set autocommit = 1', withinMs)
    this.#hadAutocommitOff = true
  }

  /** Whether the connection will be closed: nothing more can be asked on it. */
  get isSpoilt(): boolean {
    return this.#isSpoilt
  }

  /** The connection is of no more use to anybody. */
  spoil(): void {
    this.#isSpoilt = true
  }

  async giveBack(withinMs: number): Promise<void> {
    if (this.#hadAutocommitOff && !this.#isSpoilt) await this.query('set autocommit = 0', withinMs).catch(() => {})
    this.#onBack()
    if (this.#isSpoilt) this.#connection.destroy()
    else await this.#connection.release()
  }
}

/** `[rows, fields]` of mysql2; rows of mariadb, or what a write did. */
function answerOf(result: unknown, connection: MysqlPoolConnection): MysqlAnswer {
  const isPair = Array.isArray(result) && result.length === 2 && !Buffer.isBuffer(result[0]?.[0])
  const [answer] = isPair ? (result as [unknown]) : [result]
  if (Array.isArray(answer)) {
    return { rows: answer as MysqlValue[][], affectedRows: 0, lastInsertId: 0, isInTransaction: false }
  }
  const { affectedRows = 0, insertId = 0, serverStatus } = (answer ?? {}) as MysqlHeader
  // mysql2 has the server's flags in the answer, mariadb in its connection.
  const flags = serverStatus ?? (connection as { info?: { status?: number | null } }).info?.status ?? 0
  const isInTransaction = (flags & inTransactionFlag) !== 0
  return { rows: [], affectedRows: Number(affectedRows), lastInsertId: Number(insertId), isInTransaction }
}

/** What a statement without rows is answered with. Numbers may be texts or big integers. */
interface MysqlHeader {
  readonly affectedRows?: unknown
  readonly insertId?: unknown
  readonly serverStatus?: number
}

const inTransactionFlag = 1

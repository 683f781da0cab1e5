/**
 * Locks in a table of a MySQL (8.0 or newer) or MariaDB (10.5 or newer) database.
 *
 * One row a key. A batch is one read, which also tells the server's clock, and one write that carries the revisions that were read: two
 * statements, each a transaction of its own, so that a client that stops in between holds no lock on any row. Waiters are handed over to
 * by polling, one read for all of a client. Decision 129.
 */
import { randomBytes } from 'node:crypto'
import { checkOptions, withDefaults, type OptionNames } from '../../core/contract/option-names.ts'
import type { LockDriver } from '../../core/contract/driver.ts'
import { fullSupport, leaseDefaults } from '../../core/contract/supports.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { timerMs, type Duration } from '../../core/time/duration.ts'
import { PolledDriver } from '../document/polled-driver.ts'
import type { PollPace } from '../kit/queue-poller.ts'
import { MysqlClients, type MysqlPromisePool, type MysqlSource } from './clients.ts'
import { mysqlError } from './faults.ts'
import { MysqlSend } from './send.ts'
import { createTable } from './statements.ts'
import { MysqlStore } from './store.ts'
import { mysqlParameters, mysqlPool, type MysqlAddress } from './url.ts'

export type { MysqlCallbackPool, MysqlPoolConnection, MysqlPromisePool, MysqlSource } from './clients.ts'

/** The options of `mysql`. */
export interface MysqlOptions {
  /**
   * The table of the locks, which is made if it is missing; in a URL: `?table=NAME`.
   *
   * @default 'leasehold_locks'
   */
  readonly table?: string | undefined
  /**
   * With a URL: connections at once; in a URL: `?poolSize=8`.
   *
   * @default 4
   */
  readonly poolSize?: number | undefined
  /**
   * How long a lease lasts where the caller names no ttl.
   *
   * @default '30s'
   */
  readonly ttl?: Duration | undefined
  /**
   * How often such a lease is renewed.
   *
   * @default a third of `ttl`
   */
  readonly heartbeat?: Duration | undefined
  /**
   * The least pause between two polls of a key that is waited for.
   *
   * @default '10ms'
   */
  readonly waitMin?: Duration | undefined
  /**
   * The longest such pause.
   *
   * @default '800ms'
   */
  readonly waitMax?: Duration | undefined
  /**
   * How long one `send` may take, retries included; where short leases are renewed, a third of their ttl at most.
   *
   * @default '5s'
   */
  readonly timeout?: Duration | undefined
  /** The store's time in milliseconds, for tests that move it. All drivers of one store must share it. */
  readonly clockForTests?: (() => number) | undefined
}

const mysqlNames: OptionNames<MysqlOptions> = {
  table: true,
  poolSize: true,
  ttl: true,
  heartbeat: true,
  waitMin: true,
  waitMax: true,
  timeout: true,
  clockForTests: true,
}

const defaults = { table: 'leasehold_locks', poolSize: 4, waitMin: 10, waitMax: 800, timeout: 5000 } as const
/** No server takes more connections. */
const poolSizeMax = 100_000

/**
 * A lock store in a MySQL or MariaDB database: a URL, a pool of `mysql2`, or a pool of `mariadb`.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { mysql } from 'leasehold/mysql'
 * import { createPool } from 'mysql2/promise'
 *
 * const pool = createPool('mysql://shop@127.0.0.1/shop')
 * await using locks = await createLocks({ driver: mysql(pool) })
 * ```
 */
export function mysql(source: MysqlSource, options: MysqlOptions = {}): LockDriver {
  checkOptions(options, mysqlNames, 'mysql', { prefix: "It is 'table' here." })
  const address = typeof source === 'string' ? mysqlParameters(source) : undefined
  return new MysqlDriver(address ?? poolOf(source as Exclude<MysqlSource, string>), {
    ...withDefaults<MysqlOptions>(address?.options ?? {}, options),
  })
}

/** The statement that makes the table, for a database in which the program itself may not. */
export function mysqlSchema({ table = defaults.table }: Pick<MysqlOptions, 'table'> = {}): string {
  return `${createTable(checkedTable(table))};\n`
}

class MysqlDriver extends PolledDriver<MysqlStore, string> {
  #opened: MysqlStore | undefined

  constructor(source: MysqlAddress | MysqlPromisePool, options: MysqlOptions) {
    const timeoutMs = timerMs(options.timeout ?? defaults.timeout, 'timeout')
    const { poolSize = defaults.poolSize, clockForTests } = options
    if (!Number.isInteger(poolSize) || poolSize < 1 || poolSize > poolSizeMax) {
      throw new LeaseholdError('INVALID', `poolSize is ${poolSize}. Use a whole number from 1 to ${poolSizeMax}.`)
    }
    const table = checkedTable(options.table ?? defaults.table)
    const newRevision = revisionSource()
    super({
      name: 'mysql',
      subject: 'This MySQL store',
      supports: { ...fullSupport, ...leaseDefaults(options) },
      pace: paceOf(options),
      ownTime: clockForTests,
      open: async () => {
        const clients =
          'getConnection' in source
            ? new MysqlClients(source, false)
            : new MysqlClients(await mysqlPool(source, poolSize), true)
        try {
          return (this.#opened = await MysqlStore.open(clients, { table, timeoutMs, clockForTests }))
        } catch (error) {
          await clients.close()
          throw mysqlError(error)
        }
      },
      close: (store) => store.close(),
      begin: (store, requests) => new MysqlSend(store, requests, { timeoutMs, newRevision }),
      read: (store, keys) => store.readDocuments(keys),
      list: (store, query) => store.page(query),
      dataAgeMs: (store) => store.dataAgeMs(),
      errorOf: mysqlError,
    })
  }

  get warnings(): readonly string[] {
    return this.#opened?.warnings ?? []
  }
}

/** Revisions of which no other driver makes any: twelve bytes, as text. */
function revisionSource(): () => string {
  const own = randomBytes(8).toString('hex')
  let count = 0
  return () => `${own}${(count = (count + 1) % 2 ** 32).toString(16).padStart(8, '0')}`
}

function poolOf(source: Exclude<MysqlSource, string>): MysqlPromisePool {
  const pool = 'promise' in source && typeof source.promise === 'function' ? source.promise() : source
  if ('getConnection' in pool && typeof pool.getConnection === 'function') return pool
  throw new LeaseholdError('INVALID', 'Hand in a URL, a pool of mysql2, or a pool of mariadb.')
}

function checkedTable(table: string): string {
  if (/^[\p{L}\p{N}_$-]{1,64}$/u.test(table)) return table
  const rule = 'Use at most 64 letters, digits, _, $ and -'
  throw new LeaseholdError('INVALID', `${JSON.stringify(table)} cannot be the name of the table. ${rule}.`)
}

function paceOf({ waitMin, waitMax }: MysqlOptions): PollPace {
  const minMs = timerMs(waitMin ?? defaults.waitMin, 'waitMin')
  const maxMs = timerMs(waitMax ?? Math.max(defaults.waitMax, minMs), 'waitMax')
  if (minMs <= maxMs) return { minMs, maxMs, adaptive: true }
  throw new LeaseholdError('INVALID', `waitMin is ${minMs} ms, more than waitMax, ${maxMs} ms.`)
}

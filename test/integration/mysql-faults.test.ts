/** What MySQL and MariaDB do to those who use them: sessions of every kind, conflicts, connections that end, servers that take no writes. */
import { setTimeout as pause } from 'node:timers/promises'
import { inspect } from 'node:util'
import { createPool as createMariadbPool } from 'mariadb'
import mysql2, { type PoolOptions } from 'mysql2'
import type { Pool } from 'mysql2/promise'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver, Request } from '../../src/core/contract/driver.ts'
import { connect } from '../../src/index.ts'
import { mysql, mysqlSchema, type MysqlOptions, type MysqlSource } from '../../src/drivers/mysql/driver.ts'
import { Child } from '../support/child.ts'
import { ask, claim, claimOf, claiming, fenceOf, release, renew, untilAnswered } from '../support/claims.ts'
import { deferred } from '../support/deferred.ts'
import { eventually } from '../support/eventually.ts'
import { MariadbServer } from '../support/mariadb-server.ts'
import { opened } from '../support/opened.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

const server = await MariadbServer.start({ 'innodb-flush-log-at-trx-commit': '1' }, { isToRestart: true })
afterAll(() => server.stop())

let tables = 0
const freshTable = (): string => `locks_${(tables += 1)}`

function open(options: MysqlOptions = {}, source: MysqlSource = server.database): Promise<LockDriver> {
  return opened(mysql(source, { table: freshTable(), ...options }))
}

/** A pool of the test's own; `statements` run on each of its connections before anything else. */
function poolOf(options: PoolOptions = {}, ...statements: readonly string[]): Pool {
  const pool = mysql2.createPool({ uri: server.database, connectionLimit: 2, ...options })
  // Statements of one connection are carried out in order.
  pool.on('connection', (connection) => {
    for (const sql of statements) connection.query(sql)
  })
  onTestFinished(() => pool.promise().end())
  return pool.promise()
}

/** What a connection of a pool does before a statement, and what becomes of its text. */
type BeforeStatement = (sql: string) => Promise<string>

/** A pool whose statements pass by `before`. */
function watchedPool(pool: Pool, before: BeforeStatement): MysqlSource {
  return {
    async getConnection() {
      const connection = await pool.getConnection()
      return {
        query: async ({ sql, ...asked }) => connection.query({ sql: await before(sql), ...asked }),
        release: () => connection.release(),
        destroy: () => connection.destroy(),
      }
    },
    end: () => pool.end(),
  }
}

/** A pool by which this MariaDB is taken for MySQL 8: by its version, and by the names of its variables. */
function poolLikeMysql(pool: Pool, before: BeforeStatement = async (sql) => sql): MysqlSource {
  return watchedPool(pool, async (sql) => {
    const asked = await before(sql)
    if (!asked.startsWith('show global variables')) return asked.replaceAll('@@transaction_isolation', '@@tx_isolation')
    const others = 'select variable_name, variable_value from information_schema.global_variables where variable_name'
    return `${others} in (${asked.split(' in (')[1] ?? ''} and variable_name <> 'version' union select 'version', '8.0.36'`
  })
}

/** A queue, a hand-over, a shared lock and a listing: all that a driver does. */
async function worksAsEver(driver: LockDriver): Promise<void> {
  const key = `Ünï’t\\%_"\`'😀${tables}`
  const [first, second, other] = [claimOf(key), claimOf(key), claimOf(key.toLowerCase())]
  const fence = fenceOf(await claim(driver, first))
  expect(await claim(driver, second)).toMatchObject({ state: 'waiting', ahead: 0 })
  expect(await claim(driver, other)).toMatchObject({ state: 'held' })
  expect(await renew(driver, first)).toMatchObject({ state: 'held', fence })
  expect(await release(driver, first)).toEqual({ state: 'absent', reason: 'released' })
  expect(fenceOf(await renew(driver, second))).toBeGreaterThan(fence)
  const { keys } = await driver.list({ prefix: 'Ünï’t\\%_' })
  expect(keys.map(({ key: name }) => name)).toEqual([key])
  await release(driver, second)
  await release(driver, other)
  expect((await driver.list({})).keys).toEqual([])
}

describe('locks do not depend on the session', () => {
  test.each([
    ['ANSI_QUOTES', "set sql_mode = 'ANSI_QUOTES'"],
    ['NO_BACKSLASH_ESCAPES', "set sql_mode = 'NO_BACKSLASH_ESCAPES'"],
    ['no strict mode', "set sql_mode = ''"],
    ['everything strict', "set sql_mode = 'TRADITIONAL,ANSI,ONLY_FULL_GROUP_BY'"],
    ['the mode of Oracle', "set sql_mode = 'ORACLE,EMPTY_STRING_IS_NULL'"],
    ['autocommit = 0', 'set autocommit = 0'],
    ['another time zone', "set time_zone = '-11:30'"],
    ['the character set latin1', 'set names latin1'],
    ['safe updates only', 'set sql_safe_updates = 1'],
    ['transaction isolation SERIALIZABLE', 'set session transaction isolation level serializable'],
    ['transaction isolation READ COMMITTED', 'set session transaction isolation level read committed'],
  ])('%s', async (_title, statement) => {
    await worksAsEver(await open({}, poolOf({}, statement)))
  })

  test.each<[string, PoolOptions]>([
    ['affected rows that are the changed ones', { flags: ['-FOUND_ROWS'] }],
    ['values cast and named by the client', { dateStrings: true, rowsAsArray: true, namedPlaceholders: true }],
    ['tables nested, numbers as texts', { nestTables: true, supportBigNumbers: true, bigNumberStrings: true }],
    ['several statements at once, and compression', { multipleStatements: true, compress: true }],
  ])('nor on the client: %s', async (_title, options) => {
    await worksAsEver(await open({}, poolOf(options)))
  })

  test('nor on the options of a pool of mariadb', async () => {
    const pool = createMariadbPool({
      host: '127.0.0.1',
      port: server.port,
      user: 'root',
      database: 'test',
      metaAsArray: true,
      nestTables: '_',
      checkDuplicate: false,
      initSql: 'set autocommit = 0',
    })
    onTestFinished(() => pool.end())
    await worksAsEver(await open({}, pool))
  })

  test('nor on the server: the statements for MySQL do the same', async () => {
    await worksAsEver(await open({}, poolLikeMysql(poolOf())))
  })

  test('a session in another time zone sees the same time', async () => {
    const table = freshTable()
    const zones = ['-11:30', '+00:00', '+13:00']
    const drivers = await Promise.all(zones.map((zone) => open({ table }, poolOf({}, `set time_zone = '${zone}'`))))
    for (const [index, driver] of drivers.entries()) {
      const held = claimOf(`key-${index}`)
      const fence = fenceOf(await claim(driver, held))
      expect(Math.abs(fence / 1000 - Date.now())).toBeLessThan(3_600_000)
      for (const other of drivers) {
        expect(await claim(other, claimOf(held.key, { wait: false }))).toMatchObject({ reason: 'refused' })
      }
      expect(await renew(driver, held)).toMatchObject({ state: 'held', fence })
    }
  })

  test('a document of any letters and length comes back whole', async () => {
    const driver = await open()
    const { runner } = claimOf('a')
    for (let length = 0; length < 1500; length += 37) {
      const wanted = claimOf('a', {
        runner: { ...runner, metadata: { note: 'ü'.repeat(length), more: '🔒'.repeat(9) } },
      })
      const isStored = async (): Promise<void> => {
        const [listed] = (await driver.list({ key: 'a' })).keys
        expect(listed?.claims[0]?.runner).toEqual(wanted.runner)
      }
      // Written by the statement that grants without a reading, and by the one that follows a reading.
      await claim(driver, wanted)
      await isStored()
      await renew(driver, wanted)
      await isStored()
      await release(driver, wanted)
    }
  })

  test('the session is given back as it was', async () => {
    const pool = poolOf({ connectionLimit: 1 }, 'set autocommit = 0')
    await worksAsEver(await open({}, pool))
    expect((await pool.query('select @@autocommit as autocommit'))[0]).toEqual([{ autocommit: 0 }])
  })

  test.each<[string, (pool: Pool) => MysqlSource]>([
    ['MariaDB', (pool) => pool],
    ['MySQL', poolLikeMysql],
  ])(
    'a transaction that was left open on a connection of the pool fails the call, and loses it: %s',
    async (_, source) => {
      const pool = poolOf({ connectionLimit: 1 })
      const driver = await open({}, source(pool))
      const connection = await pool.getConnection()
      await connection.query('begin')
      connection.release()
      await expect(claim(driver, claimOf('a'))).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'configuration' })
      expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held' })
    },
  )

  test('what somebody left uncommitted on a connection of the pool is undone, not committed', async () => {
    const pool = poolOf({ connectionLimit: 1 }, 'set autocommit = 0')
    const driver = await open({}, pool)
    await server.query('create table if not exists test.half_done (number int) engine = InnoDB')
    await pool.query('insert into test.half_done values (1)')
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held' })
    expect(await server.query('select * from test.half_done')).toEqual([])
  })

  test('tables that were left locked on a connection of the pool fail one call, and lose their connection', async () => {
    const pool = poolOf({ connectionLimit: 1 })
    const driver = await open({}, pool)
    await server.query('create table if not exists test.of_others (number int)')
    for (const sql of ['lock tables of_others write', 'flush tables of_others with read lock']) {
      await pool.query(sql)
      await expect(claim(driver, claimOf('a'))).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'configuration' })
      expect((await claim(driver, claimOf('a'))).state).toMatch(/held|waiting/)
    }
  })

  test('nor on the database that somebody has left it in: the same lock is not held in another one', async () => {
    const table = freshTable()
    const pool = poolOf({ connectionLimit: 1 })
    const driver = await open({ table }, pool)
    const held = claimOf('a')
    const fence = fenceOf(await claim(driver, held))
    await server.query('create database elsewhere')
    await pool.query('use elsewhere')
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'waiting' })
    expect(await renew(driver, held)).toMatchObject({ state: 'held', fence })
    expect(await server.query('show tables from elsewhere')).toEqual([])
  })

  test.each([
    ['whose clock was fixed', "set timestamp = unix_timestamp('2020-01-01')"],
    ['whose clock was fixed a moment ahead', 'set timestamp = unix_timestamp(sysdate(6)) + 1'],
    ['whose clock was fixed a moment ago', 'set timestamp = unix_timestamp(sysdate(6)) - 1'],
    ['that cuts answers short', 'set sql_select_limit = 1'],
    ['that shows what is not committed', 'set session transaction isolation level read uncommitted'],
  ])('a session is refused %s', async (_title, statement) => {
    const driver = mysql(poolOf({}, statement), { table: freshTable(), timeout: 400 })
    onTestFinished(() => driver.close())
    await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'configuration' })
  })
})

describe('what others do on the server', () => {
  test('a client that stopped in the middle of a send blocks nobody', async () => {
    const table = freshTable()
    const driver = await open({ table })
    // It sends again and again: some stop falls between a read and a write.
    const child = new Child('mysql-claimer', [server.database, table])
    onTestFinished(() => child.kill())
    await child.line(/working/)
    for (let stops = 0; stops < 10; stops += 1) {
      child.process.kill('SIGSTOP')
      for (const key of ['shared', 'own']) {
        const wanted = claimOf(key, { mode: 'shared' })
        expect(await claim(driver, wanted)).toMatchObject({ state: 'held' })
        await release(driver, wanted)
      }
      child.process.kill('SIGCONT')
      await pause(7)
    }
  })

  test('many clients that change the same keys in any order all get their answers', { timeout: 120_000 }, async () => {
    const table = freshTable()
    const drivers = await Promise.all(Array.from({ length: 6 }, () => open({ table, timeout: '60s' })))
    const keys = ['a', 'b', 'c', 'd', 'e', 'f']
    const work = drivers.map(async (driver, index) => {
      for (let round = 0; round < 15; round += 1) {
        const wanted = keys.map((_, at) => claimOf(keys[(at * (index + 1)) % 6] ?? '', { mode: 'shared' }))
        const statuses = await driver.send(wanted.map(claiming))
        expect(statuses.map(({ state }) => state)).toEqual(keys.map(() => 'held'))
        const released = await driver.send(wanted.map(({ key, id }) => ({ op: 'release', key, id })))
        expect(released).toEqual(keys.map(() => ({ state: 'absent', reason: 'released' })))
      }
    })
    await Promise.all(work)
  })

  test.each<[string, (pool: Pool, before: BeforeStatement) => MysqlSource, string]>([
    ['MariaDB', watchedPool, 'FOUND_ROWS'],
    ['MySQL, by a client that counts the rows that it found', poolLikeMysql, 'FOUND_ROWS'],
    ['MySQL, by a client that counts the rows that it changed', poolLikeMysql, '-FOUND_ROWS'],
  ])('of a batch, the row that another was quicker with is judged again: on %s', async (_, watched, flag) => {
    const table = freshTable()
    const other = await open({ table })
    const [rival, wanted, more] = [claimOf('a'), claimOf('a'), claimOf('b')]
    for (const { key } of [wanted, more]) {
      const before = claimOf(key)
      await claim(other, before)
      await release(other, before)
    }
    let isArmed = false
    const source = watched(poolOf({ flags: [flag] }), async (sql) => {
      if (isArmed && sql.startsWith('insert into')) {
        isArmed = false
        await claim(other, rival)
      }
      return sql
    })
    const driver = await open({ table }, source)
    isArmed = true
    expect(await driver.send([claiming(wanted), claiming(more)])).toMatchObject([
      { state: 'waiting' },
      { state: 'held' },
    ])
    expect(await renew(other, rival)).toMatchObject({ state: 'held' })
  })

  test('a write that another has overwritten before it was asked for is known to have been carried out', async () => {
    const table = freshTable()
    const other = await open({ table })
    const [held, next, more] = [claimOf('a'), claimOf('a'), claimOf('b')]
    let overwrite: (() => Promise<unknown>) | undefined
    const like = poolLikeMysql(poolOf(), async (sql) => {
      // What MySQL, which returns nothing from a write, is asked after it.
      if (sql.startsWith('select `name`, `revisions` from')) {
        await overwrite?.()
        overwrite = undefined
      }
      return sql
    })
    const driver = await open({ table }, like)
    // Where others have written, a release begins with a reading.
    const before = claimOf('a')
    await claim(other, before)
    await release(other, before)
    await claim(driver, held)
    overwrite = () => claim(other, next)
    // The row that is new keeps the count of changed rows from telling.
    const [released, claimed] = await driver.send([{ op: 'release', key: 'a', id: held.id }, claiming(more)])
    expect(overwrite).toBeUndefined()
    expect(released).toEqual({ state: 'absent', reason: 'released' })
    expect(claimed).toMatchObject({ state: 'held' })
    expect(await renew(other, next)).toMatchObject({ state: 'held' })
  })

  test('rows that somebody locks are waited for, and then given up: the outcome is not known', async () => {
    const table = freshTable()
    const driver = await open({ table, timeout: 600 })
    const held = claimOf('a')
    const fence = fenceOf(await claim(driver, held))
    await server.connected(async (connection) => {
      await connection.query('begin')
      await connection.query(`select * from test.${table} for update`)
      const status = await renew(driver, held)
      expect(status).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'no-answer' } })
      // Others are not kept waiting by that.
      expect((await driver.list({})).keys).toHaveLength(1)
    })
    expect(await untilAnswered(() => renew(driver, held))).toMatchObject({ state: 'held', fence })
  })

  test('a lock wait timeout is tried again', async () => {
    const table = freshTable()
    const driver = await open({ table }, poolOf({}, 'set innodb_lock_wait_timeout = 1'))
    const held = claimOf('a')
    await claim(driver, held)
    await server.connected(async (connection) => {
      await connection.query('begin')
      await connection.query(`select * from test.${table} for update`)
      const renewed = renew(driver, held)
      await pause(1300)
      await connection.query('rollback')
      expect(await renewed).toMatchObject({ state: 'held' })
    })
  })

  test('a deadlock is tried again', async () => {
    const table = freshTable()
    const driver = await open({ table })
    const [one, two] = [claimOf('a'), claimOf('b')]
    await driver.send([claiming(one), claiming(two)])
    await server.connected(async (connection) => {
      await connection.query('use test')
      // Heavier than our statement, which is the victim.
      await connection.query('create table if not exists test.heavy (number int primary key) engine = InnoDB')
      await connection.query('begin')
      await connection.query(`select * from test.${table} where name = 'b' for update`)
      await connection.query('insert into test.heavy select seq from seq_1_to_500')
      const before = await deadlocks()
      const renewed = driver.send([one, two].map(({ key, id, ttlMs }) => ({ op: 'renew', key, id, ttlMs })))
      await eventually(async () => (await waits()) > 0, 'our statement to wait')
      await connection.query(`select * from test.${table} where name = 'a' for update`)
      await connection.query('rollback')
      expect(await renewed).toEqual([
        expect.objectContaining({ state: 'held' }),
        expect.objectContaining({ state: 'held' }),
      ])
      expect(await deadlocks()).toBeGreaterThan(before)
    })
  })

  test('a statement that is killed is tried again, and so is a read whose connection is', async () => {
    const table = freshTable()
    const driver = await open({ table, poolSize: 1 })
    const held = claimOf('a')
    const fence = fenceOf(await claim(driver, held))
    await server.connected(async (connection) => {
      await connection.query('begin')
      await connection.query(`select * from test.${table} for update`)
      const renewed = renew(driver, held)
      const [waiter] = await eventually(async () => {
        const found = await server.query(
          "select id from information_schema.processlist where info like 'insert into%' and command = 'Query'",
        )
        return found.length > 0 && found
      }, 'our statement to wait')
      await connection.query(`kill query ${String(waiter?.['id'])}`)
      await connection.query('rollback')
      expect(await renewed).toMatchObject({ state: 'held', fence })
    })
    await server.endConnections()
    expect(await renew(driver, held)).toMatchObject({ state: 'held', fence })
  })

  test('a queue that no statement can carry fails its own key only, wherever that is in a batch', async () => {
    await server.query('set global max_allowed_packet = 1048576')
    onTestFinished(async () => void (await server.query('set global max_allowed_packet = default')))
    const driver = await open({}, poolOf())
    const crowd = (): Request[] => Array.from({ length: 50 }, () => claiming(claimOf('a')))
    const isFull = async (): Promise<boolean> => (await driver.send(crowd()))[0]?.state === 'unknown'
    await eventually(isFull, 'a full queue')
    const statuses = await driver.send([...crowd(), claiming(claimOf('b')), claiming(claimOf('c'))])
    expect(statuses[0]).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE' } })
    expect(statuses.slice(-2)).toMatchObject([{ state: 'held' }, { state: 'held' }])
  })

  async function deadlocks(): Promise<number> {
    const [row] = await server.query("show global status like 'Innodb_deadlocks'")
    return Number(row?.['Value'])
  }

  async function waits(): Promise<number> {
    const [row] = await server.query("show global status like 'Innodb_row_lock_current_waits'")
    return Number(row?.['Value'])
  }
})

describe('the server', () => {
  test('is killed and started again: what was held is held, by the same fence, through the same driver', async () => {
    const driver = await open()
    const held = claimOf('a')
    const waiting = claimOf('a')
    const fence = fenceOf(await claim(driver, held))
    await claim(driver, waiting)
    await driver.dataAgeMs?.()
    const killedAt = performance.now()
    await server.kill()
    await expect(renew(driver, held)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
    await server.restart()
    expect(await untilAnswered(() => renew(driver, held))).toMatchObject({ state: 'held', fence })
    // It may have been started on an older copy of its files.
    expect(await driver.dataAgeMs?.()).toBeLessThan(performance.now() - killedAt)
    await release(driver, held)
    expect(await renew(driver, waiting)).toMatchObject({ state: 'held' })
  })

  test('stands still: a send is given up in time, a close too, and the pool is as good as before', async () => {
    const pool = poolOf({ connectionLimit: 1 })
    const driver = await open({ timeout: 500 }, pool)
    const own = await open({ timeout: 500 })
    await claim(own, claimOf('b'))
    const wanted = claimOf('a')
    server.signal('SIGSTOP')
    try {
      // The signal may come between the reading and the write: then it is not known whether the claim was written.
      const fault = await claim(driver, wanted).then(
        (status) => (status.state === 'unknown' ? status.error : status),
        (error: unknown) => error,
      )
      expect(fault).toMatchObject({ code: 'UNAVAILABLE', reason: 'no-answer' })
      await own.close()
    } finally {
      server.signal('SIGCONT')
    }
    expect(await untilAnswered(() => claim(driver, wanted))).toMatchObject({ state: 'held' })
  })

  test('the reply to a write is lost: the outcome is unknown, and the claim can be released', async () => {
    const proxy = await TcpProxy.start({ port: server.port })
    onTestFinished(() => proxy.stop())
    const table = freshTable()
    const driver = await open({ table, timeout: 700 }, `mysql://root@127.0.0.1:${proxy.port}/test`)
    const other = await open({ table })
    const wanted = claimOf('a')
    await server.connected(async (connection) => {
      await connection.query('begin')
      await connection.query(`insert into test.${table} values ('a', '', 0, '', 0, 0)`)
      const answer = claim(driver, wanted)
      await eventually(
        async () =>
          (await server.query("select 1 from information_schema.processlist where info like 'insert into%returning%'"))
            .length > 0,
        'our statement to wait',
      )
      proxy.dropReplies = true
      await connection.query('rollback')
      expect(await answer).toMatchObject({ state: 'unknown' })
    })
    proxy.dropReplies = false
    // It was written, and nobody was told.
    expect(await claim(other, claimOf('a'))).toMatchObject({ state: 'waiting' })
    expect(await untilAnswered(() => release(driver, wanted))).toEqual({ state: 'absent', reason: 'released' })
  })

  test.each(['set global read_only = 1', 'flush tables with read lock; set global read_only = 1; unlock tables'])(
    'that takes no writes is refused, also if this user may write: %s',
    async (statements) => {
      const driver = await open()
      const held = claimOf('a')
      await claim(driver, held)
      await server.query(...statements.split('; '))
      try {
        await expect(connect(server.database)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'read-only' })
        await expect(renew(driver, held)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'read-only' })
      } finally {
        await server.query('set global read_only = 0')
      }
      expect(await renew(driver, held)).toMatchObject({ state: 'held' })
    },
  )

  test('warns where a crash may undo what was answered', async () => {
    await server.query('set global innodb_flush_log_at_trx_commit = 2')
    try {
      expect((await open()).warnings).toEqual([
        expect.stringMatching(/^innodb_flush_log_at_trx_commit is 2: .* Set it to 1\.$/),
      ])
    } finally {
      await server.query('set global innodb_flush_log_at_trx_commit = 1')
    }
    expect((await open()).warnings).toEqual([])
  })

  test('that does not exist, or not under that name, is reported as what it is', async () => {
    const refused = async (url: string): Promise<unknown> => connect(url).catch((error: unknown) => error)
    expect(await refused('mysql://127.0.0.1:1/test')).toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
    expect(await refused(`${server.url}/missing`)).toMatchObject({
      code: 'UNAVAILABLE',
      reason: 'configuration',
      message: expect.stringContaining('There is no such database'),
    })
  })
})

describe('the table', () => {
  test('may be made beforehand, by what mysqlSchema gives', async () => {
    const table = freshTable()
    await server.query('use test', mysqlSchema({ table }))
    await worksAsEver(await open({ table }))
  })

  test.each<[string, () => MysqlSource]>([
    ['mysql2', () => poolOf()],
    [
      'mariadb',
      () => {
        const pool = createMariadbPool({
          host: '127.0.0.1',
          port: server.port,
          user: 'root',
          database: 'test',
          debugLen: 5000,
        })
        onTestFinished(() => pool.end())
        return pool
      },
    ],
  ])('that is not ours is reported without the statement, which has the ids of others: %s', async (_client, source) => {
    const table = freshTable()
    const driver = await open({ table }, source())
    const held = claimOf('a')
    await claim(driver, held)
    await server.query(`alter table test.${table} drop column claims`)
    const status = await claim(driver, claimOf('a'))
    expect(status).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'mysql' } })
    const said = inspect(status, { depth: Infinity })
    expect(said).toContain("Unknown column 'claims'")
    expect(said).not.toContain('insert into')
    expect(said).not.toContain(held.id)
    expect(said).not.toContain(Buffer.from(held.id).toString('hex'))
  })

  test('of another engine is refused: it would lose what was answered, or half of a batch', async () => {
    const table = freshTable()
    await server.query('use test', mysqlSchema({ table }).replace('InnoDB row_format = dynamic', 'Aria'))
    await expect(open({ table })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('Aria'),
    })
  })

  test('that is dropped or emptied under way is made anew: nothing is held, fences grow, its data is young', async () => {
    const table = freshTable()
    const driver = await open({ table })
    for (const loss of [`drop table test.${table}`, `truncate test.${table}`]) {
      const held = claimOf('a')
      const fence = fenceOf(await claim(driver, held))
      await driver.dataAgeMs?.()
      // A server tells in whole seconds since when it runs.
      await eventually(async () => ((await driver.dataAgeMs?.()) ?? 0) > 0, 'the data to have an age')
      await server.query(loss)
      expect(await renew(driver, held)).toEqual({ state: 'absent', reason: 'unknown' })
      expect(await driver.dataAgeMs?.()).toBe(0)
      const next = claimOf('a')
      expect(fenceOf(await claim(driver, next))).toBeGreaterThan(fence)
      await release(driver, next)
    }
  })

  test('that is restored from a dump is young again, and fences still grow', async () => {
    const [table, copy] = [freshTable(), freshTable()]
    const driver = await open({ table })
    await driver.dataAgeMs?.()
    // A second passes: the server knows to the second when a table was made.
    await pause(1100)
    await server.query(
      `create table test.${copy} like test.${table}`,
      `insert into test.${copy} select * from test.${table}`,
    )
    const fence = fenceOf(await claim(driver, claimOf('a')))
    expect(await driver.dataAgeMs?.()).toBeGreaterThan(0)
    await server.query(`drop table test.${table}`, `rename table test.${copy} to test.${table}`)
    expect(await driver.dataAgeMs?.()).toBe(0)
    expect(fenceOf(await claim(driver, claimOf('a')))).toBeGreaterThan(fence)
  })

  test('a record that is damaged fails its own key only', async () => {
    const table = freshTable()
    const driver = await open({ table })
    await driver.send([claiming(claimOf('a')), claiming(claimOf('b'))])
    for (const document of [
      'not JSON',
      '{"version":1,"claims":{}}',
      '{"version":1,"claims":[{"leaseMs":"x"}]}',
      'null',
    ]) {
      await server.query(`update test.${table} set document = '${document}' where name = 'a'`)
      const [broken, fine] = await driver.send([claiming(claimOf('a')), claiming(claimOf('b'))])
      expect(broken).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'corrupt' } })
      expect(fine).toMatchObject({ state: 'waiting' })
      expect((await driver.list({})).keys.map(({ key }) => key)).toEqual(['b'])
    }
    await server.query(`update test.${table} set document = 'null' where name = x'00'`)
    expect(await driver.dataAgeMs?.()).toBe(0)
  })

  test('loses what is of no more use, and nothing else', async () => {
    const table = freshTable()
    const driver = await open({ table })
    const [held, gone] = [claimOf('held', { ttlMs: 86_400_000 }), claimOf('gone')]
    await driver.send([claiming(held), claiming(gone)])
    await release(driver, gone)
    await server.query(`update test.${table} set forget_hour = 1 where name = 'gone'`)
    // A driver that is new tidies up with its first write.
    const other = await open({ table })
    await claim(other, claimOf('more'))
    const names = async (): Promise<string[]> =>
      (await server.query(`select cast(name as char) as name from test.${table} order by name`)).map(({ name }) =>
        String(name),
      )
    await eventually(async () => !(await names()).includes('gone'), 'the row to go')
    expect(await names()).toEqual(['\0', 'held', 'more'])
    const [row] = await server.query(
      `select forget_hour * 3600 - unix_timestamp() as kept from test.${table} where name = 'held'`,
    )
    expect(Number(row?.['kept'])).toBeGreaterThan(86_400)
  })
})

describe('what is tidied away', () => {
  const forgottenIn = async (table: string, name: string): Promise<number> => {
    const kept = `forget_hour * 3600 - unix_timestamp() as seconds from test.${table} where name = '${name}'`
    const [row] = await server.query(`select ${kept}`)
    return Number(row?.['seconds'])
  }

  test('keeps a row as long as its grace blocks, and until the clock has passed its last fence', async () => {
    const table = freshTable()
    const driver = await open({ table })
    const [ended, ahead] = [claimOf('ended', { ttlMs: 1000, graceMs: 36_000_000 }), claimOf('ahead')]
    await claim(driver, ended)
    expect(await forgottenIn(table, 'ended')).toBeGreaterThan(36_000)
    await claim(driver, ahead)
    const { key, id, ttlMs } = ahead
    const fenceFloor = (Date.now() + 10 * 86_400_000) * 1000
    expect(fenceOf(await ask(driver, { op: 'renew', key, id, ttlMs, fenceFloor }))).toBeGreaterThanOrEqual(fenceFloor)
    await release(driver, ahead)
    expect(await forgottenIn(table, 'ahead')).toBeGreaterThan(10 * 86_400)
  })

  test('is no row that was taken again while it is tidied', async () => {
    const table = freshTable()
    const driver = await open({ table })
    const [gone, again] = [claimOf('a'), claimOf('a')]
    await claim(driver, gone)
    await release(driver, gone)
    await server.query(`update test.${table} set forget_hour = 1 where name = 'a'`)
    const tidied = deferred()
    const tidying = await open(
      { table },
      watchedPool(poolOf(), async (sql) => {
        if (!sql.startsWith('delete from')) return sql
        await claim(driver, again)
        tidied.resolve()
        return sql
      }),
    )
    // A driver that is new tidies up with its first write.
    await claim(tidying, claimOf('b'))
    await tidied.promise
    await tidying.close()
    expect(await renew(driver, again)).toMatchObject({ state: 'held' })
  })
})

test('hand-over: a waiter of another client is told soon, by one read for all that wait', async () => {
  const table = freshTable()
  const [holder, waiter] = [await open({ table }), await open({ table, waitMax: 50 })]
  const held = claimOf('key0')
  await claim(holder, held)
  const waiting = Array.from({ length: 50 }, () => claimOf('key0'))
  await waiter.send(waiting.map(claiming))
  const told = new Promise((resolve) => waiter.listen?.((key, id) => resolve([key, id])))
  const before = await selects()
  await pause(300)
  // Some reads for fifty waiters, not some for each.
  expect((await selects()) - before).toBeLessThan(50)
  // A document of more than 20,000 characters, read again only once it has changed.
  const [sentBefore, readsBefore] = [await status('Bytes_sent'), await selects()]
  await eventually(async () => (await selects()) > readsBefore + 2, 'some polls')
  expect((await status('Bytes_sent')) - sentBefore).toBeLessThan(20_000)
  await release(holder, held)
  expect(await told).toEqual(['key0', waiting[0]?.id])
  expect(await ask(waiter, { op: 'renew', key: 'key0', id: waiting[0]?.id ?? '', ttlMs: 60_000 })).toMatchObject({
    state: 'held',
  })

  function selects(): Promise<number> {
    return status('Com_select')
  }

  async function status(name: string): Promise<number> {
    const [row] = await server.query(`show global status like '${name}'`)
    return Number(row?.['Value'])
  }
})

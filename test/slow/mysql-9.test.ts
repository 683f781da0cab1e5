/** MySQL itself, where most tests run on MariaDB: rows are written without `returning`. */
import { createPool as createMariadbPool } from 'mariadb'
import mysql2 from 'mysql2'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { mysql, type MysqlPromisePool } from '../../src/drivers/mysql/driver.ts'
import { compareWithModel, conformance } from '../../src/testing/index.ts'
import { claim, claimOf, claiming, release, renew } from '../support/claims.ts'
import { MariadbServer } from '../support/mariadb-server.ts'
import { guessesHold } from '../support/mysql-guesses.ts'
import { mysqlHarness } from '../support/mysql-harness.ts'
import { debianMysql } from '../support/mysql-program.ts'
import { opened } from '../support/opened.ts'
import { rounds } from '../support/extent.ts'

const server = await MariadbServer.start(
  { 'innodb-flush-log-at-trx-commit': '1', 'sync-binlog': '1' },
  { program: debianMysql() },
)
const pool = mysql2.createPool({ uri: server.database, connectionLimit: 6 })
const mariadbPool = createMariadbPool({
  host: '127.0.0.1',
  port: server.port,
  user: 'root',
  database: 'test',
  allowPublicKeyRetrieval: true,
})
afterAll(async () => {
  await pool.promise().end()
  await mariadbPool.end()
  await server.stop()
})

describe.each([
  ['mysql2', pool],
  ['mariadb', mariadbPool],
])('a pool of %s', (name, source) => {
  conformance('mysql', mysqlHarness(source, server, { table: `by_${name}`, waitMax: 200 }))
})

test('answers as the rule does on random commands', { timeout: 300_000 }, async () => {
  const harness = mysqlHarness(pool, server, { table: 'model', waitMin: 2, waitMax: 20 })
  const { commands, counterexample } = await compareWithModel(harness, { runs: rounds(15, 70), timeLimitMs: 250_000 })
  expect(counterexample).toBeUndefined()
  expect(commands).toBeGreaterThanOrEqual(rounds(350, 2000))
})

describe('rows are changed without a reading', () => guessesHold(server))

test('many clients that change the same keys in any order all get their answers', { timeout: 120_000 }, async () => {
  const drivers = await Promise.all(
    Array.from({ length: 6 }, () => opened(mysql(server.database, { table: 'crowd', timeout: '60s' }))),
  )
  const keys = ['a', 'b', 'c', 'd', 'e', 'f']
  await Promise.all(
    drivers.map(async (driver, index) => {
      for (let round = 0; round < 15; round += 1) {
        const wanted = keys.map((_, at) => claimOf(keys[(at * (index + 1)) % 6] ?? '', { mode: 'shared' }))
        const statuses = await driver.send(wanted.map(claiming))
        expect(statuses.map(({ state }) => state)).toEqual(keys.map(() => 'held'))
        const released = await driver.send(wanted.map(({ key, id }) => ({ op: 'release', key, id })))
        expect(released).toEqual(keys.map(() => ({ state: 'absent', reason: 'released' })))
      }
    }),
  )
})

test('a transaction that was left open on a connection of the pool answers nothing, as it may show what was, and loses its connection', async () => {
  const options = { host: '127.0.0.1', port: server.port, user: 'root', database: 'test', connectionLimit: 1 }
  const own: readonly MysqlPromisePool[] = [
    mysql2.createPool(options).promise(),
    createMariadbPool({ ...options, noControlAfterUse: true, allowPublicKeyRetrieval: true }),
  ]
  for (const [index, single] of own.entries()) {
    onTestFinished(async () => void (await single.end()))
    const driver = await opened(mysql(single, { table: `transaction_${index}` }))
    const other = await opened(mysql(server.database, { table: `transaction_${index}` }))
    const wanted = claimOf('a')
    await claim(driver, wanted)
    const connection = await single.getConnection()
    await connection.query({ sql: 'start transaction with consistent snapshot' })
    await connection.release()
    await release(other, wanted)
    const next = claimOf('a')
    expect(await claim(other, next)).toMatchObject({ state: 'held' })
    // Sent again, as after a lost answer: in the snapshot it is held, and nothing is to be written.
    const refused = { code: 'UNAVAILABLE', reason: 'configuration' }
    await expect(claim(driver, wanted)).rejects.toMatchObject(refused)
    expect(await claim(driver, wanted)).toMatchObject({ state: 'waiting' })
    expect(await renew(driver, next)).toMatchObject({ state: 'held' })
  }
})

test('warns of no setting where both logs are flushed', async () => {
  expect((await opened(mysql(server.database))).warnings).toEqual([])
})

import mysql2 from 'mysql2'
import { createPool as createMariadbPool } from 'mariadb'
import { afterAll, describe, expect, test } from 'vitest'
import { compareWithModel, conformance } from '../../src/testing/index.ts'
import type { MysqlSource } from '../../src/drivers/mysql/driver.ts'
import { isLong, rounds } from '../support/extent.ts'
import { MariadbServer } from '../support/mariadb-server.ts'
import { mysqlHarness } from '../support/mysql-harness.ts'

const server = await MariadbServer.start({ 'innodb-flush-log-at-trx-commit': '1' }, { isToRestart: true })
const pool = mysql2.createPool({ uri: server.database, connectionLimit: 6 })
const mariadbPool = createMariadbPool({ host: '127.0.0.1', port: server.port, user: 'root', database: 'test' })
const byMariadb: readonly (readonly [string, MysqlSource])[] = [['mariadb', mariadbPool]]
afterAll(async () => {
  await pool.promise().end()
  await mariadbPool.end()
  await server.stop()
})

const pools: readonly (readonly [string, MysqlSource])[] = [['mysql2', pool], ...(isLong ? byMariadb : [])]

describe.each(pools)('a pool of %s', (name, source) => {
  conformance('mysql', mysqlHarness(source, server, { table: `by_${name}`, waitMax: 200 }))
})

test('answers as the rule does on random commands', { timeout: 300_000 }, async () => {
  const harness = mysqlHarness(pool, server, { table: 'model', waitMin: 2, waitMax: 20 })
  const { commands, counterexample } = await compareWithModel(harness, { runs: rounds(15, 70), timeLimitMs: 250_000 })
  expect(counterexample).toBeUndefined()
  expect(commands).toBeGreaterThanOrEqual(rounds(350, 2000))
})

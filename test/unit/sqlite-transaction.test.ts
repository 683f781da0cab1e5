import { expect, test } from 'vitest'
import { openConnection, type SqliteConnection } from '../../src/drivers/sqlite/connection.ts'
import { selfIdentityIn } from '../../src/drivers/sqlite/self-identity.ts'
import { systemSqliteEnvironment } from '../../src/drivers/sqlite/sqlite-environment.ts'
import { inTransaction } from '../../src/drivers/sqlite/transaction-writer.ts'
import { claimOf } from '../support/claims.ts'
import { scratch } from '../sqlite/scratch.ts'

const { file } = scratch()
const environment = systemSqliteEnvironment()
const self = selfIdentityIn(environment)

/** A connection whose COMMIT fails with this code of SQLite. */
function failing(connection: SqliteConnection, errcode: number): SqliteConnection {
  const run = () => {
    throw Object.assign(new Error('as told'), { errcode })
  }
  return { ...connection, statements: { ...connection.statements, commit: { run } } }
}

test.each([
  ['refused when the disk is full', 13, 'throws'],
  ['in doubt when the disk failed', 10, 'doubts'],
])('a commit is %s', (_how, errcode, outcome) => {
  const connection = openConnection(file(), environment, false)
  const claim = claimOf('a')
  const attempt = () =>
    inTransaction(failing(connection, errcode), self, (writing) => writing.carryOut({ op: 'claim', claim }))
  if (outcome === 'throws') expect(attempt).toThrow('as told')
  else expect(attempt()).toMatchObject({ doubt: { errcode }, notifications: [] })
  // Either way the connection is ready for the next transaction.
  const again = inTransaction(connection, self, (writing) => writing.carryOut({ op: 'claim', claim }))
  expect(again.result).toMatchObject({ state: 'held' })
  connection.database.close()
})

test('what fails half-way leaves nothing behind', () => {
  const connection = openConnection(file(), environment, false)
  const attempt = () =>
    inTransaction(connection, self, (writing) => {
      writing.carryOut({ op: 'claim', claim: claimOf('a') })
      throw new Error('half-way')
    })
  expect(attempt).toThrow('half-way')
  expect(connection.statements.holdersOf.all('a')).toEqual([])
  connection.database.close()
})

test('the clock is read once the file is locked: what ended while others wrote is over', () => {
  let now = 5000
  const clock = { now: () => now, wall: () => 1_700_000_000_000 + now }
  const connection = openConnection(file(), environment, false)
  const identity = selfIdentityIn({ ...environment, clock })
  const holder = claimOf('a', { ttlMs: 1000 })
  inTransaction(connection, identity, (writing) => writing.carryOut({ op: 'claim', claim: holder }))
  const begin = {
    run(): void {
      now += 1000
      connection.statements.begin.run()
    },
  }
  const slow = { ...connection, statements: { ...connection.statements, begin } }
  const renewal = { op: 'renew', key: 'a', id: holder.id, ttlMs: 1000 } as const
  const { result } = inTransaction(slow, identity, (writing) => writing.carryOut(renewal))
  expect(result).toEqual({ state: 'absent', reason: 'expired' })
  connection.database.close()
})

test('commits survive the end of any process, and checkpoints are synced: synchronous is normal', () => {
  const connection = openConnection(file(), environment, false)
  expect(connection.database.query('pragma synchronous').get()).toEqual({ synchronous: 1 })
  expect(connection.database.query('pragma journal_mode').get()).toEqual({ journal_mode: 'wal' })
  connection.database.close()
})

test('the file is locked from the beginning of a transaction, before anything is read', () => {
  const shared = file()
  const [connection, other] = [openConnection(shared, environment, false), openConnection(shared, environment, false)]
  inTransaction(connection, self, () => {
    expect(() => other.database.exec('begin immediate')).toThrow(/locked/)
  })
  for (const each of [connection, other]) each.database.close()
})

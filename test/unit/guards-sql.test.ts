import { describe, expect, test } from 'vitest'
import { sqlGuard, type WriteResult } from '../../src/guards/index.ts'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'

const superseded = expect.objectContaining({ code: 'LOST', reason: 'superseded' }) as Error
const invalid = expect.objectContaining({ code: 'INVALID' }) as Error
const invoice = { table: 'invoice', set: { total: 5 }, where: { id: 42 }, fence: 118 }

describe('an SQL guard', () => {
  test('writes an update for each dialect', () => {
    expect(sqlGuard('postgres').update(invoice)).toEqual({
      sql: 'update "invoice" set "total" = $1, "fence" = $2 where "id" = $3 and ("fence" is null or "fence" <= $4)',
      values: [5, 118, 42, 118],
    })
    expect(sqlGuard('sqlite').update(invoice)).toEqual({
      sql: 'update "invoice" set "total" = ?, "fence" = ? where "id" = ? and ("fence" is null or "fence" <= ?)',
      values: [5, 118, 42, 118],
    })
    expect(sqlGuard('mysql', { column: 'lock_fence' }).update(invoice)).toEqual({
      sql: 'update `invoice` set `total` = ?, `lock_fence` = ? where `id` = ? and (`lock_fence` is null or `lock_fence` <= ?)',
      values: [5, 118, 42, 118],
    })
  })

  test('raises the fence of a row and writes nothing else', () => {
    const { table, where, fence } = invoice
    expect(sqlGuard('postgres').raise({ table, where, fence })).toEqual({
      sql: 'update "invoice" set "fence" = $1 where "id" = $2 and ("fence" is null or "fence" <= $3)',
      values: [118, 42, 118],
    })
  })

  test('gives the pieces for a statement of your own', () => {
    const guard = sqlGuard('postgres')
    expect(guard.set(7, 2)).toEqual({ sql: '"fence" = $2', values: [7] })
    expect(guard.where(7, 9)).toEqual({ sql: '("fence" is null or "fence" <= $9)', values: [7] })
    expect(() => guard.where(7, 0)).toThrow(invalid)
  })

  test('quotes names, whatever is in them', () => {
    expect(sqlGuard('postgres').quote('a"; drop table b; --')).toBe('"a""; drop table b; --"')
    expect(sqlGuard('mysql').quote('a`; drop table b; --')).toBe('`a``; drop table b; --`')
    expect(sqlGuard('postgres').update({ ...invoice, table: ['billing', 'in"voice'] }).sql).toContain(
      'update "billing"."in""voice" set',
    )
    for (const name of ['', 'a\0b', 7 as unknown as string])
      expect(() => sqlGuard('sqlite').quote(name)).toThrow(invalid)
  })

  test('does not update every row by mistake', () => {
    expect(() => sqlGuard('sqlite').update({ ...invoice, where: {} })).toThrow(invalid)
  })

  test('finds the row that has no value in a column', () => {
    const { sql, values } = sqlGuard('postgres').update({ ...invoice, where: { tenant: null, id: 42 } })
    expect(sql).toContain('where "tenant" is null and "id" = $3')
    expect(values).toEqual([5, 118, 42, 118])
  })

  test('takes no dialect it does not know, and no fence that is none', () => {
    expect(() => sqlGuard('oracle' as 'mysql')).toThrow(invalid)
    expect(() => sqlGuard('sqlite').update({ ...invoice, fence: 0 })).toThrow(invalid)
  })

  test.each<[string, (rows: number) => WriteResult]>([
    ['a number', (rows) => rows],
    ['pg', (rows) => ({ rowCount: rows, rows: [], command: 'UPDATE' })],
    ['postgres', (rows) => Object.assign([], { count: rows, command: 'UPDATE' })],
    ['node:sqlite', (rows) => ({ changes: rows, lastInsertRowid: 0 })],
    ['better-sqlite3 with big integers', (rows) => ({ changes: BigInt(rows) })],
    ['@libsql/client', (rows) => ({ rowsAffected: rows })],
    ['mysql2', (rows) => [{ affectedRows: rows, insertId: 0 }, undefined]],
    ['mariadb', (rows) => ({ affectedRows: rows, insertId: 0n })],
  ])('reads the number of rows from the result of %s', (_client, result) => {
    const guard = sqlGuard('postgres')
    guard.check(result(1), 'invoice 42', 118)
    expect(() => guard.check(result(0), 'invoice 42', 118)).toThrow(superseded)
  })

  test('does not take a result without a number of rows for a success', () => {
    for (const result of [undefined, null, {}, [], { rowCount: null }, 'ok', -1]) {
      expect(() => sqlGuard('postgres').check(result as WriteResult, 'invoice 42', 118)).toThrow(invalid)
    }
  })

  test('guards rows of a real database, those without a fence too', () => {
    const database = openDatabase(':memory:')
    database.exec('create table "in""voice" (id integer primary key, total, "fence" integer)')
    database.exec('insert into "in""voice" values (1, 0, null), (2, 0, 50)')
    const write = (id: number, total: number, fence: number): number => {
      const { sql, values } = sqlGuard('sqlite').update({ table: 'in"voice', set: { total }, where: { id }, fence })
      database.command(sql).run(...(values as number[]))
      return Number(database.query('select changes() as rows').get()?.['rows'])
    }
    expect([write(1, 10, 7), write(1, 11, 7), write(1, 12, 6), write(2, 10, 49), write(2, 10, 51)]).toEqual([
      1, 1, 0, 0, 1,
    ])
    expect(database.query('select id, total, fence from "in""voice"').all()).toEqual([
      { id: 1, total: 11, fence: 7 },
      { id: 2, total: 10, fence: 51 },
    ])
    database.close()
  })
})

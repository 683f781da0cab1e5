import { describe, expect, test } from 'vitest'
import { isMissing, isSuperseded, sqlGuard, type FindResult, type WriteResult } from '../../src/guards/index.ts'
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

  test('reads whether there is a row, for each dialect', () => {
    const { where, fence } = invoice
    const row = { table: ['billing', 'invoice'], where: { ...where, tenant: null }, fence }
    expect(sqlGuard('postgres').find(row)).toEqual({
      sql: 'select 1 as found from "billing"."invoice" where "id" = $1 and "tenant" is null',
      values: [42],
    })
    expect(sqlGuard('mysql').find(row).sql).toBe(
      'select 1 as found from `billing`.`invoice` where `id` = ? and `tenant` is null',
    )
    expect(() => sqlGuard('sqlite').find({ ...row, where: {} })).toThrow(invalid)
  })

  test.each<[string, (rows: object[]) => FindResult]>([
    ['rows', (rows) => rows],
    ['pg', (rows) => ({ rowCount: rows.length, rows })],
    ['postgres', (rows) => Object.assign(rows, { count: rows.length })],
    ['the first row, or nothing', (rows) => rows[0]],
    ['the first row, or null', (rows) => rows[0] ?? null],
    ['mysql2', (rows) => [rows, [{ name: 'found' }]]],
    ['a number', (rows) => rows.length],
    ['a boolean', (rows) => rows.length > 0],
  ])('tells a missing row from a superseded one by the result of %s', async (_client, result) => {
    const guard = sqlGuard('postgres')
    const row = { ...invoice, where: { id: 42n } }
    const asked: string[] = []
    const find = (rows: object[]) => (sql: string, values: unknown[]) => {
      asked.push(`${sql} ${values.join()}`)
      return result(rows)
    }
    await guard.checkRow(1, row, find([]))
    expect(asked).toEqual([])
    await expect(guard.checkRow(0, row, find([{ found: 1 }]))).rejects.toSatisfy(isSuperseded)
    const missing = guard.checkRow(0, row, find([]))
    await expect(missing).rejects.toSatisfy(isMissing)
    await expect(missing).rejects.toMatchObject({
      code: 'INVALID',
      reason: 'missing',
      fence: 118,
      scope: 'invoice id=42',
    })
    expect(asked).toHaveLength(2)
  })

  test('does not take the answer of something else for a row', async () => {
    for (const answer of ['found', 7.5, Symbol('row')] as never[]) {
      await expect(sqlGuard('sqlite').checkRow(0, invoice, () => answer)).rejects.toThrow(invalid)
    }
    const failing = sqlGuard('sqlite').checkRow(0, invoice, () => Promise.reject(new Error('no such table')))
    await expect(failing).rejects.toThrow('no such table')
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

import { describe, expect, test } from 'vitest'
import { inOrder, withoutNumbers } from '../../src/drivers/sqlite/database.ts'
import { prepareStatements } from '../../src/drivers/sqlite/statements.ts'

describe('numbered parameters', () => {
  test('each becomes a plain one, which is given the value of its number', () => {
    const { sql, order } = withoutNumbers('select ?2, ?1 where a = ?2 and b = ?10')
    expect(sql).toBe('select ?, ? where a = ? and b = ?')
    expect(inOrder(['a', 'b', 3, 4, 5, 6, 7, 8, 9, 'j'], order ?? [])).toEqual(['b', 'a', 'b', 'j'])
  })

  test('values stay as they are where no number is used twice or out of turn', () => {
    for (const sql of ['begin', 'delete from t where a = ? and b = ?', 'delete from t where a = ?1 and b = ?2'])
      expect(withoutNumbers(sql).order).toBeUndefined()
  })

  test('no statement of the driver mixes them with plain ones, or has a parameter with a name', () => {
    const statements: string[] = []
    const record = (sql: string) => (statements.push(sql), {} as never)
    prepareStatements({ query: record, command: record, exec: () => {}, close: () => {} })
    expect(statements.length).toBeGreaterThan(30)
    for (const sql of statements) {
      expect(sql).not.toMatch(/[:@$][A-Za-z]/)
      expect(/\?\d/.test(sql) && /\?(?!\d)/.test(sql), sql).toBe(false)
    }
  })
})

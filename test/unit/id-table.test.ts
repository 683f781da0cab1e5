import { array, assert, constantFrom, integer, property, record } from 'fast-check'
import { expect, test } from 'vitest'
import { IdTable } from '../../src/core/client/id-table.ts'

// Few ids and long runs, so that slots collide, gaps close around the end of the table, and it grows.
const operations = array(
  record({ kind: constantFrom('set', 'set', 'delete', 'get'), id: integer({ min: 0, max: 60 }).map(String) }),
  { maxLength: 400 },
)

test('an id table holds what a map would', () => {
  assert(
    property(operations, (run) => {
      const table = new IdTable<number>()
      const map = new Map<string, number>()
      for (const [turn, { kind, id }] of run.entries()) {
        if (kind === 'set') {
          table.set(id, turn)
          map.set(id, turn)
        } else if (kind === 'delete') {
          table.delete(id)
          map.delete(id)
        }
        expect(table.get(id)).toBe(map.get(id))
        expect(table.size).toBe(map.size)
      }
      for (let id = 0; id <= 60; id += 1) expect(table.get(String(id))).toBe(map.get(String(id)))
    }),
  )
})

test('an id table that was once large is as good as new when it is empty', () => {
  const table = new IdTable<number>()
  const ids = Array.from({ length: 50_000 }, (_, index) => `claim-${index}`)
  for (const [index, id] of ids.entries()) table.set(id, index)
  expect(ids.every((id, index) => table.get(id) === index)).toBe(true)
  for (const id of ids) table.delete(id)
  expect(table.size).toBe(0)
  table.set('again', 1)
  expect(table.get('again')).toBe(1)
})

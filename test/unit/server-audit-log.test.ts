import { expect, test } from 'vitest'
import { AuditLog, type AuditRecord } from '../../src/server/audit/audit-log.ts'
import { fakeTime } from '../../src/testing/index.ts'

test('a caller whose refusals are of very many kinds does not hide those of others', async () => {
  const lines: AuditRecord[] = []
  const file = {
    write: (line: string) => void lines.push(JSON.parse(line) as AuditRecord),
    reopen: async () => {},
    close: async () => {},
  }
  const log = new AuditLog(file, fakeTime().environment)
  const refusal = (by: string, key: string): AuditRecord => ({
    event: 'refused',
    by,
    from: '10.0.0.1',
    key,
    why: 'a test',
  })
  for (let count = 0; count < 5000; count += 1) log.refusal(refusal('hostile', `hostile/named:${count}`))
  log.refusal(refusal('victim', 'victim/named:a'))
  await log.close(0)
  const of = (name: string) => lines.filter(({ by }) => by === name)
  expect(of('victim')).toEqual([expect.objectContaining({ key: 'victim/named:a' })])
  expect(of('hostile')).toHaveLength(101)
  expect(of('hostile').at(-1)).toMatchObject({ count: 4900, why: 'many reasons' })
})

import { expect, test } from 'vitest'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { Sessions } from '../../src/server/store/sessions.ts'
import { claimOf } from '../support/claims.ts'

test('claims whose ids and keys make the same text together are told apart', () => {
  const sessions = new Sessions(systemEnvironment(), 10, (status) => status)
  const told: string[] = []
  for (const session of ['first', 'second']) {
    sessions.stream(session).attach(
      () => void told.push(session),
      () => {},
    )
  }
  const first = claimOf('default/a', { id: 'x\ndefault/b' })
  const second = claimOf('default/b\ndefault/a', { id: 'x' })
  sessions.sending('first', { op: 'claim', claim: first })
  sessions.sending('second', { op: 'claim', claim: second })
  expect(sessions.claims).toBe(2)
  sessions.notify(first.key, first.id, 'poll')
  expect(told).toEqual(['first'])
})

import { expect, test } from 'vitest'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { Sessions, sessionOf } from '../../src/server/store/sessions.ts'
import { claimOf } from '../support/claims.ts'
import { principalWith } from '../../src/server/auth/grants.ts'
import { anybody } from '../../src/server/auth/tokens.ts'

test('claims whose ids and keys make the same text together are told apart', () => {
  const sessions = new Sessions(systemEnvironment(), { claimsMax: 10, claimsPerTokenMax: 10 }, (status) => status)
  const told: string[] = []
  for (const session of ['first', 'second']) {
    sessions.stream(session, anybody).attach(
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

test('a token whose claims fill its share keeps those of others notified, and its own polls instead', () => {
  const sessions = new Sessions(systemEnvironment(), { claimsMax: 6, claimsPerTokenMax: 3 }, (status) => status)
  const notified: string[] = []
  for (const session of ['victim a', 'hostile b']) {
    sessions.stream(session, anybody).attach(
      () => void notified.push(session),
      () => {},
    )
  }
  const claiming = (id: string) => ({ op: 'claim', claim: claimOf('default/named:a', { id }) }) as const
  const waiting = { state: 'waiting', ahead: 0, ttlMs: 60_000, againMs: 20_000 } as const
  sessions.sending('victim a', claiming('mine'))
  for (let count = 0; count < 100; count += 1) sessions.sending('hostile b', claiming(`many-${count}`))
  sessions.notify('default/named:a', 'mine', 'poll')
  expect(notified).toEqual(['victim a'])
  expect(sessions.answerFor('victim a', claiming('mine'), waiting)).toEqual(waiting)
  expect(sessions.answerFor('hostile b', claiming('many-0'), waiting)).toEqual(waiting)
  expect(sessions.answerFor('hostile b', claiming('many-99'), waiting)).toEqual({ ...waiting, againMs: 1000 })
  // A claim that is over makes room.
  sessions.answered('hostile b', claiming('many-0'), { state: 'absent', reason: 'released' })
  sessions.sending('hostile b', claiming('many-99'))
  expect(sessions.answerFor('hostile b', claiming('many-99'), waiting)).toEqual(waiting)
})

test('two tokens that send the same session have one each, whatever their names begin with', () => {
  const headers = { 'leasehold-session': 'a'.repeat(22) }
  const named = (name: string) => sessionOf(headers, principalWith(name, []))
  const sessions = ['bill', 'billing', 'other'].map(named)
  expect(new Set(sessions).size).toBe(3)
})

test('the share of a token is its own, also beside one whose name begins alike', () => {
  const sessions = new Sessions(systemEnvironment(), { claimsMax: 6, claimsPerTokenMax: 1 }, (status) => status)
  const claiming = (id: string) => ({ op: 'claim', claim: claimOf('default/named:a', { id }) }) as const
  sessions.sending('team1 a', claiming('one'))
  sessions.sending('team2 b', claiming('two'))
  expect(sessions.claims).toBe(2)
})

import { expect, test } from 'vitest'
import { principalWith } from '../../src/server/auth/grants.ts'
import { lackFor } from '../../src/server/auth/rights.ts'
import { claimOf } from '../support/claims.ts'

test('a token for a namespace covers none whose name begins with it, or that it begins with', () => {
  const bill = principalWith('bill', [{ namespaces: ['bill'], rights: ['lock'] }])
  expect(bill.may('lock', 'bill/named:a')).toBe(true)
  for (const namespace of ['billing', 'bil', 'bill.', 'Bill', '']) {
    expect(bill.may('lock', `${namespace}/named:a`), namespace).toBe(false)
    expect(bill.covers(namespace), namespace).toBe(false)
  }
})

test('a token for a prefix covers what begins with it, in its own namespace only', () => {
  const part = principalWith('part', [{ prefixes: ['bill/named:eu/'], rights: ['lock'] }])
  expect(part.may('lock', 'bill/named:eu/1')).toBe(true)
  for (const key of ['bill/named:eu', 'bill/named:e', 'billing/named:eu/1', 'bill/path:/eu/1']) {
    expect(part.may('lock', key), key).toBe(false)
  }
  expect([part.covers('bill'), part.covers('billing')]).toEqual([true, false])
})

test('the rights of one grant are for its own keys, not for those of another', () => {
  const both = principalWith('both', [
    { namespaces: ['read-here'], rights: ['read'] },
    { namespaces: ['lock-here'], rights: ['lock'] },
  ])
  expect(both.may('read', 'read-here/named:a')).toBe(true)
  expect(both.may('lock', 'read-here/named:a')).toBe(false)
  expect(both.may('read', 'lock-here/named:a')).toBe(false)
})

test('to evict, by fence or by force, takes the right to evict beside that to lock', () => {
  const locker = principalWith('locker', [{ namespaces: ['team'], rights: ['lock'] }])
  const evicter = principalWith('evicter', [{ namespaces: ['team'], rights: ['evict'] }])
  const key = 'team/named:a'
  const eviction = { op: 'evict', key, fence: 1, reason: 'stuck' } as const
  const force = { op: 'claim', claim: claimOf(key, { evict: 'all' }) } as const
  const plain = { op: 'claim', claim: claimOf(key) } as const
  expect(lackFor(plain, locker, 0)).toBeUndefined()
  for (const request of [eviction, force]) expect(lackFor(request, locker, 0)?.message).toContain("'evict'")
  expect(lackFor(eviction, evicter, 0)).toBeUndefined()
  for (const request of [plain, force]) expect(lackFor(request, evicter, 0)?.message).toContain("'lock'")
})

import { expect, test } from 'vitest'
import type { ClaimStatus } from '../../src/core/contract/driver.ts'
import { DeliveredNotifications } from '../../src/drivers/postgres/listener.ts'

const held: ClaimStatus = { state: 'held', fence: 1, ttlMs: 1000 }
const leaving: ClaimStatus = { ...held, leaving: 'preempted' }
const evicted: ClaimStatus = { state: 'absent', reason: 'evicted' }

test('news that was overtaken is not told', () => {
  const told = new DeliveredNotifications()
  expect(told.isNew('one', evicted)).toBe(true)
  expect(told.isNew('one', held)).toBe(false)
  expect(told.isNew('other', leaving)).toBe(true)
  expect(told.isNew('other', held)).toBe(false)
  expect(told.isNew('other', evicted)).toBe(true)
})

test('news in its order is told, each piece', () => {
  const told = new DeliveredNotifications()
  expect([held, leaving, evicted].map((notifications) => told.isNew('one', notifications))).toEqual([true, true, true])
})

test('what was told long ago is forgotten', () => {
  const told = new DeliveredNotifications()
  told.isNew('one', evicted)
  for (let count = 0; count < 1000; count += 1) told.isNew(`claim-${count}`, held)
  expect(told.isNew('one', held)).toBe(true)
})

test('a claim that waits again is told what becomes of it', () => {
  const told = new DeliveredNotifications()
  told.isNew('one', evicted)
  told.forget('one')
  expect(told.isNew('one', held)).toBe(true)
})

import { expect, test } from 'vitest'
import type { ClaimStatus } from '../../src/core/contract/driver.ts'
import { NotificationOrder } from '../../src/drivers/postgres/listener.ts'

const held: ClaimStatus = { state: 'held', fence: 1, ttlMs: 1000 }
const leaving: ClaimStatus = { ...held, leaving: 'preempted' }
const evicted: ClaimStatus = { state: 'absent', reason: 'evicted' }

const [first, second] = [
  { key: 'key', id: 'first' },
  { key: 'key', id: 'second' },
]

test('a notification that was overtaken is out of order', () => {
  const order = new NotificationOrder()
  expect(order.isInOrder(first, evicted)).toBe(true)
  expect(order.isInOrder(first, held)).toBe(false)
  expect(order.isInOrder(second, leaving)).toBe(true)
  expect(order.isInOrder(second, held)).toBe(false)
  expect(order.isInOrder(second, evicted)).toBe(true)
})

test('notifications as they were sent are in order', () => {
  const order = new NotificationOrder()
  expect([held, leaving, evicted].map((status) => order.isInOrder(first, status))).toEqual([true, true, true])
})

test('the same id of another key is another claim', () => {
  const order = new NotificationOrder()
  order.isInOrder(first, evicted)
  expect(order.isInOrder({ ...first, key: 'another' }, held)).toBe(true)
})

test('what was noted long ago is forgotten', () => {
  const order = new NotificationOrder()
  order.isInOrder(first, evicted)
  for (let count = 0; count < 1000; count += 1) order.isInOrder({ key: 'key', id: `claim-${count}` }, held)
  expect(order.isInOrder(first, held)).toBe(true)
})

test('a claim that waits again begins a new order', () => {
  const order = new NotificationOrder()
  order.isInOrder(first, evicted)
  order.forget(first)
  expect(order.isInOrder(first, held)).toBe(true)
})

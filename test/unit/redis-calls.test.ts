import { describe, expect, test } from 'vitest'
import type { Request } from '../../src/core/contract/driver.ts'
import { callsOf, isOneCall, MigratingSlots } from '../../src/drivers/redis/calls.ts'
import { hashTagOf } from '../../src/drivers/redis/hash-tags.ts'

function release(key: string, index = 0): Request {
  return { op: 'release', key, id: `id-${index}` }
}

describe('a batch', () => {
  test('is one call on a server, and one for each hash tag on a cluster', () => {
    const keys = Array.from({ length: 40 }, (_, index) => `orders/${index % 20}`)
    const requests = keys.map((key, index) => release(key, index))
    expect(isOneCall(requests, false)).toBe(true)
    expect(callsOf(requests, false, new MigratingSlots())).toEqual([[keys.map((_, place) => place)]])
    const onCluster = callsOf(requests, true, new MigratingSlots()).map((calls) => calls.flat())
    expect(onCluster).toHaveLength(new Set(keys.map((key) => hashTagOf(key))).size)
    for (const places of onCluster) {
      expect(new Set(places.map((place) => hashTagOf(keys[place] ?? ''))).size).toBe(1)
      expect(places).toEqual(places.toSorted((one, other) => one - other))
    }
    expect(onCluster.flat().toSorted((one, other) => one - other)).toEqual(keys.map((_, place) => place))
  })

  test('that is too much work becomes calls that go one after the other: they may be about one key', () => {
    const requests = Array.from({ length: 500 }, (_, index) => release('orders/42', index))
    expect(isOneCall(requests, false)).toBe(false)
    for (const cluster of [false, true]) {
      const groups = callsOf(requests, cluster, new MigratingSlots())
      expect(groups).toHaveLength(1)
      for (const call of groups.flat()) expect(call.length).toBeLessThanOrEqual(64)
      expect(groups.flat(2)).toEqual(requests.map((_, place) => place))
    }
  })

  test('has a call for each key of a slot that is being moved, and only of that', () => {
    const migrating = new MigratingSlots()
    const tag = hashTagOf('orders/0')
    const keys = Array.from({ length: 2000 }, (_, index) => `orders/${index}`)
    const moving = keys.filter((key) => hashTagOf(key) === tag).slice(0, 3)
    const staying = keys.filter((key) => hashTagOf(key) !== tag).slice(0, 1)
    const requests = [...moving, ...staying, ...moving].map((key, index) => release(key, index))
    migrating.note(tag)
    expect(callsOf(requests, true, migrating)).toEqual([[[0, 4]], [[1, 5]], [[2, 6]], [[3]]])
  })
})

import { describe, expect, test } from 'vitest'
import { mongoGuard, redisGuard, type MongoResult } from '../../src/guards/index.ts'

const superseded = expect.objectContaining({ code: 'LOST', reason: 'superseded' }) as Error
const invalid = expect.objectContaining({ code: 'INVALID' }) as Error

/** Clients that keep what they were given. The script itself is run by the integration tests, on a real server. */
function clients(answer: unknown) {
  const calls: unknown[][] = []
  const evaluate = async (_script: string, ...rest: unknown[]): Promise<unknown> => {
    calls.push(rest)
    return answer
  }
  return { calls, ioredis: { eval: evaluate, defineCommand: () => {} }, nodeRedis: { eval: evaluate } }
}

describe('a Redis guard', () => {
  test('calls ioredis and node-redis each in its own way', async () => {
    const { calls, ioredis, nodeRedis } = clients([1, 'OK'])
    await redisGuard(ioredis).set('total', '5', 118)
    await redisGuard(nodeRedis).set('total', '5', 118)
    expect(calls).toEqual([
      [2, '{total}:fence', 'total', '118', 'SET', 'total', '5'],
      [{ keys: ['{total}:fence', 'total'], arguments: ['118', 'SET', 'total', '5'] }],
    ])
  })

  test('raises the fence without a command', async () => {
    const { calls, ioredis } = clients([1])
    await redisGuard(ioredis).raise('total', 118)
    expect(calls).toEqual([[2, '{total}:fence', 'total', '118']])
    await expect(redisGuard(clients([0, '119']).ioredis).raise('total', 118)).rejects.toThrow('LOST')
  })

  test('keeps the fence in the slot of its key', async () => {
    const { calls, nodeRedis } = clients([1, 'OK'])
    const guard = redisGuard(nodeRedis)
    for (const key of ['plain', 'user:{7}:total', 'empty{}tag']) await guard.set(key, '5', 1)
    const fenceKeys = calls.map(([options]) => (options as { keys: string[] }).keys[0])
    expect(fenceKeys).toEqual(['{plain}:fence', 'user:{7}:total:fence', '{empty{}tag}:fence'])
    await redisGuard(nodeRedis, { fenceKey: () => 'my-fence' }).set('total', '5', 1)
    expect(calls.at(-1)).toEqual([{ keys: ['my-fence', 'total'], arguments: ['1', 'SET', 'total', '5'] }])
  })

  test('throws when the script refused, and when it cannot tell', async () => {
    await expect(redisGuard(clients([0, '119']).ioredis).set('total', '5', 118)).rejects.toThrow(
      'LOST: Fence 118 may not write "total": fence 119 has been seen.',
    )
    await expect(redisGuard(clients('OK').ioredis).set('total', '5', 118)).rejects.toThrow(invalid)
    await expect(redisGuard(clients([1]).ioredis).set('total', '5', 0)).rejects.toThrow(invalid)
  })
})

describe('a MongoDB guard', () => {
  const guard = mongoGuard()

  test('adds the fence to a filter, without touching what is in it', () => {
    expect(guard.filter({ _id: 42, $or: [{ open: true }] }, 118)).toEqual({
      $and: [{ _id: 42, $or: [{ open: true }] }, { fence: { $not: { $gt: 118 } } }],
    })
  })

  test('raises the fence without an update', () => {
    expect(mongoGuard({ field: 'lock.fence' }).raise(118)).toEqual({ $set: { 'lock.fence': 118 } })
  })

  test('adds the fence to an update, beside what it sets', () => {
    expect(guard.update({ $set: { total: 5 }, $inc: { changes: 1 } }, 118)).toEqual({
      $set: { total: 5, fence: 118 },
      $inc: { changes: 1 },
    })
    expect(mongoGuard({ field: 'meta.fence' }).update({}, 7)).toEqual({ $set: { 'meta.fence': 7 } })
    expect(() => guard.update([] as never, 7)).toThrow(invalid)
  })

  test.each<[string, MongoResult, MongoResult]>([
    ['updateOne', { acknowledged: true, matchedCount: 1 }, { acknowledged: true, matchedCount: 0, upsertedCount: 0 }],
    ['an upsert', { matchedCount: 0, upsertedCount: 1 }, { matchedCount: 0, upsertedCount: 0 }],
    ['deleteOne', { deletedCount: 1 }, { deletedCount: 0 }],
    ['findOneAndUpdate', { _id: 42, total: 5 }, null],
    [
      'findOneAndUpdate with metadata',
      { ok: 1, value: {}, lastErrorObject: {} },
      { ok: 1, value: null, lastErrorObject: {} },
    ],
  ])('reads from the result of %s whether it was refused', (_call, written, refused) => {
    guard.check(written, 'invoice 42', 118)
    expect(() => guard.check(refused, 'invoice 42', 118)).toThrow(superseded)
  })

  test('does not take a write that nobody acknowledged for a success', () => {
    expect(() => guard.check({ acknowledged: false, matchedCount: 0 }, 'invoice 42', 118)).toThrow(invalid)
    expect(() => guard.check(undefined as unknown as MongoResult, 'invoice 42', 118)).toThrow(invalid)
  })

  test('takes no name that is none', () => {
    for (const field of ['', '$set', 'a\0']) expect(() => mongoGuard({ field })).toThrow(invalid)
  })
})

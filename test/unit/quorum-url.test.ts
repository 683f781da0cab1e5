import { describe, expect, test } from 'vitest'
import { parseQuorum } from '../../src/api/stores/store-url.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { quorum } from '../../src/drivers/quorum/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { connect } from '../../src/index.ts'

describe('the URL of a quorum', () => {
  test('names stores, whose own commas and options stay theirs', () => {
    const stores = ['redis-cluster://a:1,b:2', 'redis+unix:///run/a,b.sock?db=1', 'sqlite:/a,b', 'memory:x']
    expect(parseQuorum(stores.join(','))).toEqual({ urls: stores, options: {} })
  })

  test('may end with options', () => {
    const stores = ['redis://a', 'redis://b', 'redis+unix:///c.sock?db=1']
    const options = { votesAfter: '2m', answerWithin: 500, drift: 0.02 }
    expect(parseQuorum(`${stores.join(',')},?votesAfter=2m&answerWithin=500&drift=0.02`)).toEqual({
      urls: stores,
      options,
    })
    expect(parseQuorum('memory:a,?votesAfter=0').options).toEqual({ votesAfter: 0 })
  })

  test.each([
    ['redis://a,redis://b,redis://A:6379/', 'redis://a'],
    ['redis://me:secret@a,redis://b,redis://a/0', 'redis://a'],
    ['postgres://a/db,postgres://b/db,postgresql://a:5432/db?', 'postgres://a/db'],
    ['https://a,https://b,https://token@A:443/', 'https://a'],
    ['memory:x,memory:y,memory:x', 'memory:x'],
    ['sqlite:/a/b,sqlite:/c,sqlite:/a/./b', 'sqlite:/a/b'],
  ])('is refused if a store is there twice: %s', (stores, told) => {
    expect(() => parseQuorum(stores)).toThrow(`INVALID: The store ${told} is there twice`)
  })

  test('may name stores that differ, and memory that is private each time', () => {
    const stores = 'redis://a,redis://a:6380,redis://a/1,rediss://a,memory:,memory:'
    expect(parseQuorum(stores).urls).toHaveLength(6)
  })

  test('has its options heeded: no lease may outlast votesAfter', async () => {
    const stores = ['a', 'b', 'c'].map((name) => `memory:quorum-url-${name}`).join(',')
    await using locks = await connect(`quorum:${stores},?votesAfter=10s`)
    await expect(locks.acquire('demo', { ttl: '11s' })).rejects.toMatchObject({ code: 'INVALID' })
  })
})

test('a quorum of drivers that are of one store is refused', () => {
  const twice = [memory({ name: 'same' }), memory(), memory({ name: 'same' })]
  expect(() => quorum(twice)).toThrow('INVALID: Two drivers of a quorum are of one store')
  expect(() => quorum([sqlite({ file: 'a' }), memory(), sqlite({ file: './a' })])).toThrow('of one store')
  expect(() => quorum([memory(), memory(), memory()])).not.toThrow()
})

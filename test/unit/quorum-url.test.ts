import { describe, expect, test } from 'vitest'
import { parseQuorum } from '../../src/api/quorum-url.ts'
import { connect } from '../../src/index.ts'

describe('the URL of a quorum', () => {
  test('names stores, whose own commas and options stay theirs', () => {
    const stores = ['redis-cluster://a:1,b:2', 'redis+unix:///run/a,b.sock?db=1', 'sqlite:/a,b?c', 'memory:x']
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

  test('has its options heeded: no lease may outlast votesAfter', async () => {
    const stores = ['a', 'b', 'c'].map((name) => `memory:quorum-url-${name}`).join(',')
    await using locks = await connect(`quorum:${stores},?votesAfter=10s`)
    await expect(locks.acquire('demo', { ttl: '11s' })).rejects.toMatchObject({ code: 'INVALID' })
  })
})

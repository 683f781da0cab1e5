import { describe, expect, test } from 'vitest'
import { mongodb, mongodbParameters } from '../../src/drivers/mongodb/driver.ts'
import { pastAllWith } from '../../src/drivers/mongodb/listing.ts'
import { pollPauseMs } from '../../src/drivers/kit/queue-poller.ts'

const url = 'mongodb://127.0.0.1'

describe('the pause between two looks', () => {
  const pace = { minMs: 10, maxMs: 800, adaptive: true }

  test('grows by half each time in vain, from the least to the longest', () => {
    expect([0, 1, 2, 3].map((unchanged) => pollPauseMs(pace, unchanged, 1, 0.5))).toEqual([10, 15, 22.5, 33.75])
    expect(pollPauseMs(pace, 50, 1, 0.5)).toBe(800)
  })

  test('is spread by a fifth either way, and never leaves its bounds', () => {
    expect(pollPauseMs(pace, 2, 1, 0)).toBeCloseTo(18)
    expect(pollPauseMs(pace, 2, 1, 1)).toBeCloseTo(27)
    for (const random of [0, 0.5, 1]) {
      for (let unchanged = 0; unchanged < 20; unchanged += 1) {
        expect(pollPauseMs(pace, unchanged, 1, random)).toBeGreaterThanOrEqual(10)
        expect(pollPauseMs(pace, unchanged, 1, random)).toBeLessThanOrEqual(800)
      }
    }
  })

  test('begins the longer the further back one stands', () => {
    expect([1, 2, 10, 1000].map((place) => pollPauseMs(pace, 0, place, 0.5))).toEqual([10, 20, 100, 800])
  })

  test('is anything between the two, by chance, where adapting is switched off', () => {
    const random = { ...pace, adaptive: false }
    expect([0, 0.5, 1].map((chance) => pollPauseMs(random, 7, 3, chance))).toEqual([10, 405, 800])
  })
})

test('a cluster behind mongos is opened, with a word about its clocks', async () => {
  const db = {
    databaseName: 'shop',
    command: async () => ({ msg: 'isdbgrid', maxWireVersion: 21 }),
    collection: () => ({ createIndex: async () => '' }),
  }
  const driver = mongodb(db as never)
  await driver.open()
  expect(driver.warnings).toEqual([expect.stringMatching(/^Behind mongos .* Keep the clocks of all of them together/)])
  await driver.close()
})

describe('options', () => {
  test('say the ttl and heartbeat of whoever names none', () => {
    expect(mongodb(url).supports).toMatchObject({ ttlDefaultMs: 30_000, heartbeatDefaultMs: 10_000 })
    const { supports } = mongodb(url, { ttl: '9s' })
    expect(supports).toMatchObject({ ttlDefaultMs: 9000, heartbeatDefaultMs: 3000 })
    expect(mongodb(url, { ttl: 9000, heartbeat: '1s' }).supports.heartbeatDefaultMs).toBe(1000)
  })

  test('that make no sense are refused at once', () => {
    expect(() => mongodb(url, { ttl: 1000, heartbeat: 900 })).toThrow('over half the ttl')
    expect(() => mongodb(url, { waitMin: 50, waitMax: 20 })).toThrow('waitMin is 50 ms, more than waitMax')
    expect(() => mongodb(url, { timeout: 0 })).toThrow('INVALID')
  })

  test('name the collection in a URL, which the client does not see', () => {
    const hosts = 'mongodb://one:1,two:2/app'
    expect(mongodbParameters(`${hosts}?replicaSet=rs&collection=Locks%21&w=majority`)).toEqual({
      url: `${hosts}?replicaSet=rs&w=majority`,
      options: { collection: 'Locks!' },
    })
    expect(mongodbParameters(`${hosts}?collection=Locks`)).toEqual({ url: hosts, options: { collection: 'Locks' } })
    expect(mongodbParameters(hosts)).toEqual({ url: hosts, options: {} })
  })
})

test('the names with a prefix end before the next that has it not', () => {
  expect(pastAllWith('a')).toBe('b')
  expect(pastAllWith('a\u{10FFFF}')).toBe('b')
  expect(pastAllWith('\u{D7FF}')).toBe('\u{E000}')
  expect(pastAllWith('\u{10FFFF}')).toBeUndefined()
})

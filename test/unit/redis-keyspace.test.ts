import { describe, expect, test } from 'vitest'
import { parseRedisUrl } from '../../src/drivers/redis/address.ts'
import { hashTagOf, hashTags } from '../../src/drivers/redis/hash-tags.ts'
import { RedisKeyspace } from '../../src/drivers/redis/keyspace.ts'
import { redis } from '../../src/drivers/redis/driver.ts'

describe('hash tags', () => {
  test('of known keys never change: another tag would be another lock', () => {
    const known = {
      '': 'fd8',
      'default/named:orders/42': '6e8',
      'default/inode:7': '65b',
      'billing/path:/a/b': '65b',
      'default/named:\u{1F512} Schloß': '67a',
    }
    expect(Object.fromEntries(Object.keys(known).map((key) => [key, hashTagOf(key)]))).toEqual(known)
  })

  test('lie in different 64ths of the slots of a cluster, and are of one length', () => {
    const parts = hashTags.map((tag) => Math.floor(slotOf(tag) / 256))
    expect(parts).toEqual(Array.from({ length: 64 }, (_, part) => part))
    expect(new Set(hashTags.map(({ length }) => length))).toEqual(new Set([3]))
  })

  test('are used about equally', () => {
    const uses = new Map<string, number>()
    for (let index = 0; index < 64_000; index += 1) {
      const tag = hashTagOf(`default/named:orders/${index}`)
      uses.set(tag, (uses.get(tag) ?? 0) + 1)
    }
    expect(uses.size).toBe(64)
    expect(Math.max(...uses.values())).toBeLessThan(1250)
    expect(Math.min(...uses.values())).toBeGreaterThan(750)
  })
})

/** CRC16 as Redis Cluster computes it. */
function slotOf(text: string): number {
  let crc = 0
  for (const byte of Buffer.from(text)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff
  }
  return crc % 16_384
}

describe('names', () => {
  test('carry prefix, tag and key, and give the key back', () => {
    const keyspace = new RedisKeyspace('schloß:')
    const record = keyspace.record('default/named:{x}')
    expect(record).toMatch(/^schloß:\{[0-9a-f]{3}\}k:default\/named:\{x\}$/)
    expect(keyspace.keyOf(record)).toBe('default/named:{x}')
    expect(Buffer.from(record).subarray(0, keyspace.tagEnd).toString()).toMatch(/\}$/)
  })

  test('match a prefix of keys to the letter', () => {
    expect(new RedisKeyspace('a*:').pattern('b?[c]')).toBe(String.raw`a\*:{???}k:b\?\[c\]*`)
  })

  test('braces in a prefix are refused: they would be taken for the hash tag', () => {
    expect(() => redis({ prefix: 'a{b}' })).toThrow(/braces/)
  })

  test('a prefix of two lines is refused: records keep names a line each', () => {
    expect(() => redis({ prefix: 'a\nb' })).toThrow(/no line breaks/)
  })
})

describe('a prefix', () => {
  const refused = expect.objectContaining({ code: 'INVALID' })

  test('is taken beside a URL and beside a client, as in the options', () => {
    for (const unusable of ['', 'a{b}', 'a\nb', 'a\u0000', '\ud800', 'x'.repeat(201), 7 as never]) {
      expect(() => redis('redis://localhost', { prefix: unusable })).toThrow(refused)
      expect(() => redis({ call: async () => null } as never, { prefix: unusable })).toThrow(refused)
      expect(() => redis({ prefix: unusable })).toThrow(refused)
    }
    expect(() => redis('redis://localhost', { prefix: 'x'.repeat(200) })).not.toThrow()
  })

  test('is read from every kind of URL, decoded, and checked like the option', () => {
    const prefixed = { prefix: 'billing:locks/ä:' }
    const query = `prefix=${encodeURIComponent(prefixed.prefix)}`
    for (const url of ['redis://a', 'rediss://a/2', 'redis+unix:///a.sock', 'unix:/a.sock', 'redis-cluster://a,b']) {
      expect(parseRedisUrl(`${url}?${query}`)).toMatchObject(prefixed)
      for (const unusable of ['', 'a%7Bb', 'a%0Ab']) expect(() => redis(`${url}?prefix=${unusable}`)).toThrow(refused)
    }
    expect(parseRedisUrl(`redis-cluster://me:a%3Fb@a,b/0?${query}`)).toMatchObject({ password: 'a?b', ...prefixed })
    expect(parseRedisUrl('redis://a')).not.toHaveProperty('prefix')
  })

  test('that is there twice is refused', () => {
    expect(() => redis('redis://a?prefix=b:&prefix=c:')).toThrow(/twice/)
    expect(() => redis('redis-cluster://a?prefix=b:&prefix=c:')).toThrow(/twice/)
  })
})

describe('what a store is made of', () => {
  test('is named once: a URL or client beside another, or two options objects, are refused', () => {
    const client = { call: async () => null } as never
    for (const [source, options] of [
      ['redis://localhost', { url: 'redis://other' }],
      [client, { client }],
      [client, { url: 'redis://other' }],
      [{ url: 'redis://localhost' }, { prefix: 'a:' }],
      [{ url: 'redis://localhost', client }],
      ['redis://localhost', { prefx: 'a:' }],
      ['redis://localhost', 3],
      [null],
      [7],
    ] as unknown as [never, never?][]) {
      expect(() => redis(source, options)).toThrow(expect.objectContaining({ code: 'INVALID' }))
    }
  })
})

describe('an address', () => {
  test('is read from a URL', () => {
    expect(parseRedisUrl('redis://localhost')).toEqual({ host: 'localhost', port: 6379, tls: false, db: 0 })
    expect(parseRedisUrl('rediss://me:a%40b@redis.example:6380/2')).toEqual({
      host: 'redis.example',
      port: 6380,
      tls: true,
      username: 'me',
      password: 'a@b',
      db: 2,
    })
    expect(parseRedisUrl('redis://:secret@[::1]:7000')).toMatchObject({ host: '::1', port: 7000, password: 'secret' })
  })

  test('may be a socket', () => {
    expect(parseRedisUrl('redis+unix:///run/redis.sock?db=3')).toEqual({ path: '/run/redis.sock', tls: false, db: 3 })
    expect(parseRedisUrl('unix:/run/redis.sock')).toMatchObject({ path: '/run/redis.sock' })
    const signedIn = parseRedisUrl('redis+unix:///run/redis.sock?username=me&password=a%40b')
    expect(signedIn).toMatchObject({ path: '/run/redis.sock', username: 'me', password: 'a@b' })
  })

  test('may be some nodes of a Cluster', () => {
    expect(parseRedisUrl('redis-cluster://a:7000,b,[::1]:7002')).toEqual({
      nodes: [
        { host: 'a', port: 7000 },
        { host: 'b', port: 6379 },
        { host: '::1', port: 7002 },
      ],
      tls: false,
    })
    const signedIn = { nodes: [{ host: 'a', port: 6379 }], tls: true, username: 'me', password: 'a@b,c/d' }
    expect(parseRedisUrl('rediss-cluster://me:a%40b%2Cc%2Fd@a/0')).toEqual(signedIn)
    expect(() => parseRedisUrl('redis-cluster://a,b/1')).toThrow('A Redis Cluster has only database 0.')
  })

  test('that makes no sense is refused without repeating its password', () => {
    const cluster = ['', ',', 'a,', 'a:b', 'a:99999', 'a?b', 'a/b'].map((rest) => `redis-cluster://:secret@${rest}`)
    const single = ['redis://:secret@host/x', 'redis://:secret%@host', 'http://:secret@host', 'secret']
    // A password with a bare question mark: what follows is no parameter.
    cluster.push('redis-cluster://me:12?secret@host', 'redis-cluster://me:12?prefix=secret@host')
    single.push('redis://me:12?secret@host', 'redis://me:12?prefix=secret@host')
    for (const url of [...single, ...cluster]) {
      expect(() => redis(url)).toThrow(expect.objectContaining({ code: 'INVALID' }))
      expect(() => redis(url)).not.toThrow(/secret/)
      expect(() => redis(url)).not.toThrow(expect.objectContaining({ cause: expect.anything() }))
    }
  })
})

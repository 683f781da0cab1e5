import { describe, expect, test } from 'vitest'
import type { Claim, Request } from '../../src/core/contract/driver.ts'
import { shortRunner } from '../../src/core/rule/short-runner.ts'
import { decodeNotification, decodeReply, decodeSolo } from '../../src/drivers/redis/decoding.ts'
import { encodeBatch, encodeSolo } from '../../src/drivers/redis/encoding.ts'
import { redisError, wasNotSent } from '../../src/drivers/redis/errors.ts'
import { hashTagOf, hashTags } from '../../src/drivers/redis/hash-tags.ts'
import { RedisKeyspace } from '../../src/drivers/redis/keyspace.ts'

const runner = { id: 'runner', incarnation: 'one', host: 'here', pid: 1, client: 'client' }
const sender = { keyspace: new RedisKeyspace('p:'), channel: 'p:inbox:me', clock: undefined }

function claim(id: string, changes: Partial<Claim> = {}): Request {
  const plain = { id, key: `key-${id}`, mode: 'exclusive', priority: 0, wait: true, ttlMs: 1000, graceMs: 0 } as const
  return { op: 'claim', claim: { ...plain, runner, ...changes } }
}

describe('a batch', () => {
  test('tells once what its requests have in common', () => {
    const requests = [claim('a'), claim('b'), { op: 'release', key: 'x', id: 'c' } as const, claim('d')]
    const { keys, values } = encodeBatch(requests, sender)
    expect(keys).toHaveLength(4)
    expect(values).toEqual([
      '7',
      'p:inbox:me',
      '',
      '0',
      '',
      '',
      '2',
      'c',
      '1000',
      shortRunner(runner),
      '',
      '2000',
      'd',
      '0',
      '',
      '',
      '0',
      '!!!!!"!!',
      '1',
      'abcd',
    ])
  })

  test('in which no key comes twice says so, and which hash tags its plain claims have', () => {
    const keys = Array.from({ length: 300 }, (_, index) => `key-${index}`).toSorted()
    const requests = keys.map((key) => claim('a', { key }))
    const releases = keys.map((key) => ({ op: 'release', key, id: 'a' }) as const)
    const [apart, tags = ''] = encodeBatch(requests, sender).values.slice(4)
    expect([apart, (tags.match(/.../g) ?? []).toSorted()]).toEqual(['1', hashTags.toSorted()])
    expect(encodeBatch([claim('a', { key: 'x' }), claim('b', { key: 'x' })], sender).values.slice(4, 6)).toEqual([
      '',
      '',
    ])
    expect(encodeBatch(releases, sender).values.slice(4, 6)).toEqual(['1', ''])
    expect(encodeBatch([claim('a', { priority: 1 })], sender).values.slice(4, 6)).toEqual(['1', ''])
  })

  test('of one kind numbers nothing', () => {
    expect(encodeBatch([claim('a'), claim('b')], sender).values.at(-3)).toBe('')
  })

  test('keeps apart what differs in wait, ttl, runner or terms', () => {
    const other = { ...runner, id: 'other' }
    const differing = [{}, { wait: false }, { ttlMs: 2000 }, { runner: other }, { priority: 1 }, { graceMs: 5 }]
    const requests = differing.map((changes, index) => claim(String(index), changes))
    expect(encodeBatch(requests, sender).values[6]).toBe('6')
  })

  test('tells ids apart that differ in length, or in bytes', () => {
    expect(encodeBatch([claim('a'), claim('bc')], sender).values.slice(-2)).toEqual(['0', '["a","bc"]'])
    expect(encodeBatch([claim('ä')], sender).values.slice(-2)).toEqual(['0', '["ä"]'])
  })

  test('of more kinds than one character can number', () => {
    const requests = Array.from({ length: 200 }, (_, index) => claim(String(index), { ttlMs: 1000 + index }))
    const { values } = encodeBatch(requests, sender)
    const numbers = values.at(-3)?.match(/../gs)
    expect(values[6]).toBe('200')
    expect(numbers?.at(-1)).toBe('#4')
    expect(new Set(numbers).size).toBe(200)
  })
})

describe('a request by itself', () => {
  test('is told with its owner in one text, and no more than it needs', () => {
    const fence = `p:{${hashTagOf('key-a')}}fence`
    const owner = 'a\np:inbox:me\n'
    expect(encodeSolo(claim('a'), sender)).toEqual({
      keys: [sender.keyspace.record('key-a')],
      values: ['c', fence, owner + shortRunner(runner), '2000', '0000001000'],
    })
    const renewal = { op: 'renew', key: 'key-a', id: 'a', ttlMs: 1000 } as const
    expect(encodeSolo(renewal, sender)?.values).toEqual(['r', fence, owner, '2000', '0000001000'])
    expect(encodeSolo({ op: 'release', key: 'key-a', id: 'ä' }, sender)?.values.slice(2)).toEqual([
      'ä\np:inbox:me\n',
      '94',
    ])
  })

  test.each<[string, Request]>([
    ['has wishes', claim('a', { priority: 1 })],
    ['has a ttl of more than ten digits', claim('a', { ttlMs: 10_000_000_000 })],
    ['has a ttl of a fraction', claim('a', { ttlMs: 0.5 })],
    ['has an id of two lines', claim('a\nb')],
    ['lifts fences', { op: 'renew', key: 'x', id: 'a', ttlMs: 1000, fenceFloor: 7 }],
    ['evicts', { op: 'evict', key: 'x', fence: 7, reason: 'away' }],
  ])('goes as a batch if it %s', (_, request) => {
    expect(encodeSolo(request, sender)).toBeUndefined()
  })

  test('is answered with a fence if it got what it asked for, and in one character if it let go', () => {
    expect(decodeSolo('1700000000000000', claim('a'))).toMatchObject({ fence: 1_700_000_000_000_000, ttlMs: 1000 })
    expect(decodeSolo('-', { op: 'release', key: 'x', id: 'a' })).toEqual({ state: 'absent', reason: 'released' })
    expect(decodeSolo('h 7 900', claim('a'))).toMatchObject({ fence: 7, ttlMs: 900 })
    expect(() => decodeSolo(7, claim('a'))).toThrow(/INVALID/)
  })
})

describe('a reply', () => {
  test('is read answer by answer', () => {
    const after = { how: 'expired', fence: 3, runner }
    const stored = `{"how":"expired","fence":3,"runner":${shortRunner(runner)}}`
    const answers = [
      'g',
      '+2',
      'g',
      '=1699999999999999',
      '-',
      'h 1700000000000005 900\n',
      `h 7 1 {"leaving":"preempted","after":${stored}}\n`,
      'w 3 500 20\n',
      'a refused\n',
      String.raw`a evicted "by\nhand"` + '\n',
      '=12',
      'x foreign\n',
    ]
    const requests = answers.map((_, index) => claim(String(index)))
    const statuses = decodeReply(`1700000000000000 ${answers.join('')}`, requests)
    expect(statuses.slice(0, -1)).toEqual([
      { state: 'held', fence: 1_700_000_000_000_000, ttlMs: 1000 },
      { state: 'held', fence: 1_700_000_000_000_002, ttlMs: 1000 },
      { state: 'held', fence: 1_700_000_000_000_000, ttlMs: 1000 },
      { state: 'held', fence: 1_699_999_999_999_999, ttlMs: 1000 },
      { state: 'absent', reason: 'released' },
      { state: 'held', fence: 1_700_000_000_000_005, ttlMs: 900 },
      { state: 'held', fence: 7, ttlMs: 1, leaving: 'preempted', after },
      { state: 'waiting', ahead: 3, ttlMs: 500, againMs: 20 },
      { state: 'absent', reason: 'refused' },
      { state: 'absent', reason: 'evicted', detail: 'by\nhand' },
      { state: 'held', fence: 12, ttlMs: 1000 },
    ])
    expect(statuses.at(-1)).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'foreign' } })
  })

  test('that makes no sense is an error', () => {
    expect(() => decodeReply(7, [])).toThrow(/INVALID/)
    expect(() => decodeReply('1 z\n', [claim('a')])).toThrow(/INVALID/)
    expect(() => decodeReply('1 ', [claim('a')])).toThrow(/INVALID/)
  })
})

describe('notifications', () => {
  test('names status, claim and key, whatever the key holds', () => {
    expect(decodeNotification('h 5 100\nid\nkey\nwith lines')).toEqual({
      key: 'key\nwith lines',
      id: 'id',
      status: { state: 'held', fence: 5, ttlMs: 100 },
    })
  })

  test('from somebody else is not heard', () => {
    for (const message of ['', 'hello', 'a\nb', 'zzz\nid\nkey', 'h 1 2 {\nid\nkey']) {
      expect(decodeNotification(message)).toBeUndefined()
    }
  })
})

describe('what Redis complains about', () => {
  test.each([
    ['WRONGPASS invalid username-password pair', 'auth'],
    ['NOAUTH Authentication required.', 'auth'],
    ["NOPERM this user has no permissions to run the 'evalsha' command", 'auth'],
    ["READONLY You can't write against a read only replica.", 'read-only'],
    ["OOM command not allowed when used memory > 'maxmemory'.", 'full'],
    ['MISCONF Redis is configured to save RDB snapshots', 'full'],
    ['LOADING Redis is loading the dataset in memory', 'loading'],
    ['BUSY Redis is busy running a script.', 'busy'],
    ['CLUSTERDOWN The cluster is down', 'cluster'],
    ['connect ECONNREFUSED 127.0.0.1:6379', 'network'],
    ['Connection is closed.', 'network'],
    ['ERR Error running script', 'script'],
  ])('%s: %s', (message, reason) => {
    expect(redisError(new Error(message))).toMatchObject({ code: 'UNAVAILABLE', reason })
  })

  test('only what was never sent counts as not sent', () => {
    expect(wasNotSent(new Error("Stream isn't writeable and enableOfflineQueue options is false"))).toBe(true)
    expect(wasNotSent(new Error('Connection is closed.'))).toBe(false)
    expect(wasNotSent(new Error('read ECONNRESET'))).toBe(false)
  })
})

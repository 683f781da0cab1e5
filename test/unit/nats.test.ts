import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bucketWarnings, refuseReplicas, refuseUnsafe, type StreamConfig } from '../../src/drivers/nats/bucket.ts'
import { nats } from '../../src/drivers/nats/driver.ts'
import { isNatsRefusal, JetStreamRefusal, natsError } from '../../src/drivers/nats/errors.ts'
import { JetStreamApi } from '../../src/drivers/nats/jetstream-api.ts'
import { keyOfToken, tokenOfKey } from '../../src/drivers/nats/keys.ts'
import { parseNatsUrl } from '../../src/drivers/nats/url.ts'

describe('keys', () => {
  test('any key is one token that KV tools accept, and comes back', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (text) => {
        const key = text.toWellFormed()
        const token = tokenOfKey(key)
        expect(token).toMatch(/^[-\w=]+$/)
        expect(keyOfToken(token)).toBe(key)
      }),
    )
  })

  test('two keys never share a token', () => {
    expect(new Set(['a b', 'a=20b', 'a.b', 'a_b', 'A b', 'ä', 'a\u0308'].map(tokenOfKey)).size).toBe(7)
  })

  test('the longest key fits into a subject of NATS', () => {
    expect(tokenOfKey('€'.repeat(341)).length).toBeLessThan(3500)
  })

  test('a key that begins with a byte order mark comes back with it', () => {
    expect(keyOfToken(tokenOfKey('\u{FEFF}key'))).toBe('\u{FEFF}key')
  })

  test('a token of somebody else is no key', () => {
    expect(['a.b', 'a/b', 'a=2', 'a=zz', 'a=FF', ' ']).toSatisfy((tokens: string[]) =>
      tokens.every((token) => keyOfToken(token) === undefined),
    )
  })
})

describe('URLs', () => {
  test('name servers, a login and a bucket', () => {
    expect(parseNatsUrl('nats://ann:p%40ss@one,two:4333,[::1]:1?bucket=locks')).toEqual({
      servers: [
        { host: 'one', port: 4222 },
        { host: 'two', port: 4333 },
        { host: '::1', port: 1 },
      ],
      login: { user: 'ann', pass: 'p@ss' },
      isSecure: false,
      bucket: 'locks',
    })
    expect(parseNatsUrl('natss://token@one/')).toMatchObject({ login: { token: 'token' }, isSecure: true })
  })

  test.each(['nats://', 'nats://a/path', 'nats://:p@a', 'nats://a:0', 'nats://u:p?w@a', 'nats://a#b'])(
    '%s is refused, without repeating it',
    (url) => expect(() => parseNatsUrl(url)).toThrow(/^INVALID: This is not the URL of a NATS/),
  )
})

describe('options', () => {
  test('are checked where they enter', () => {
    const url = 'nats://127.0.0.1:1'
    expect(() => nats(url, { bucket: 'a.b' })).toThrow('INVALID: The bucket "a.b"')
    expect(() => nats(url, { bucket: '' })).toThrow('INVALID: The bucket ""')
    expect(() => nats(`${url}?bucket=a%20b`)).toThrow('INVALID: The bucket "a b"')
    expect(() => nats(url, { replicas: 6 })).toThrow('INVALID: replicas')
    expect(() => nats(url, { tls: { caFile: 'a' } as never })).toThrow('no option "caFile" of tls')
    expect(nats(url, { ttl: '9s' }).supports).toMatchObject({ ttlDefaultMs: 9000, heartbeatDefaultMs: 3000 })
  })
})

describe('a bucket', () => {
  const good: StreamConfig = {
    max_age: 0,
    max_bytes: -1,
    max_msgs: -1,
    max_msgs_per_subject: 1,
    discard: 'new',
    retention: 'limits',
    storage: 'file',
    num_replicas: 3,
  }

  test.each<[string, StreamConfig]>([
    ['has a TTL', { max_age: 1 }],
    ['keeps older values', { max_msgs_per_subject: 5 }],
    ['keeps older values', { max_msgs_per_subject: -1 }],
    ['removing the oldest locks', { discard: 'old', max_bytes: 1000 }],
    ['removing the oldest locks', { discard: 'old', max_msgs: 10 }],
    ['has the retention "workqueue"', { retention: 'workqueue' }],
    ['takes no second write', { discard_new_per_subject: true }],
    ['is sealed', { sealed: true }],
    ['does not answer writes', { no_ack: true }],
    ['copies another stream', { mirror: { name: 'other' } }],
    ['copies another stream', { sources: [{}] }],
    ['stores messages under other subjects', { subject_transform: { src: '>', dest: 'other.>' } }],
    ['answers writes before they are stored', { persist_mode: 'async' }],
  ])('that %s is refused', (problem, changes) => {
    expect(() => refuseUnsafe('b', good)).not.toThrow()
    expect(() => refuseUnsafe('b', { ...good, ...changes })).toThrow(problem)
  })

  test('on several servers is refused before 2.11, where two writes that race may both win', () => {
    const at = (version: string): JetStreamApi => new JetStreamApi({ info: { version } } as never, 1000)
    for (const old of ['2.10.29', '2.9.10', '1.12.0', 'unknown']) {
      expect(() => refuseReplicas(at(old), 'b', 3)).toThrow('INVALID: Locks are not safe in the NATS bucket "b"')
      expect(() => refuseReplicas(at(old), 'b', 1)).not.toThrow()
    }
    for (const recent of ['2.11.0', '2.15.1', '3.0.0']) {
      expect(() => refuseReplicas(at(recent), 'b', 3)).not.toThrow()
    }
  })

  test('that may lose what it answered is warned of, until the operator says that it is written to disk', () => {
    const wish = { bucket: 'b', replicas: 1, syncAlways: false }
    expect(bucketWarnings(wish, { ...good, num_replicas: 1 })[0]).toMatch('its one server loses power')
    expect(bucketWarnings(wish, good)[0]).toMatch('most of its 3 servers lose power at once')
    expect(bucketWarnings({ ...wish, syncAlways: true }, good)).toEqual([])
    expect(bucketWarnings({ ...wish, syncAlways: true }, { ...good, storage: 'memory' })[0]).toMatch('is in memory')
  })
})

describe('errors', () => {
  test('a right to receive answers that was lost says nothing about what was carried out', () => {
    const lost = (operation: string): Error => new Error(`Permissions Violation for ${operation} to "_INBOX.x.*"`)
    expect(isNatsRefusal(lost('Publish'))).toBe(true)
    expect(isNatsRefusal(lost('Subscription'))).toBe(false)
  })

  const named = (name: string, message: string, code?: string): Error =>
    Object.assign(new Error(message), { name, code })

  test.each<[string, Error, string, boolean]>([
    ['a call without an answer', named('TimeoutError', 'timeout'), 'no-answer', false],
    ['the same in nats 2', named('NatsError', 'TIMEOUT', 'TIMEOUT'), 'no-answer', false],
    ['nobody to answer', named('RequestError', "no responders: 'a'"), 'failover', true],
    ['the same in nats 2', named('NatsError', '503', '503'), 'failover', true],
    ['a refused login', named('AuthorizationError', 'Authorization Violation'), 'auth', true],
    ['a missing right', named('PermissionViolationError', 'Permissions Violation for Publish to "a"'), 'auth', true],
    ['a payload too large', named('InvalidArgumentError', "'payload' max_payload size exceeded"), 'full', true],
    ['a full bucket', new JetStreamRefusal(10_077, 'maximum bytes exceeded'), 'full', true],
    ['a connection that was closed before', named('ClosedConnectionError', 'closed connection'), 'network', true],
    ['one that was closed meanwhile', named('RequestError', 'connection closed'), 'network', false],
    ['another refusal', new JetStreamRefusal(10_013, 'bad request'), 'nats', true],
  ])('%s has a reason that stays, and is told from an unknown outcome', (_, error, reason, isRefused) => {
    expect(natsError(error)).toMatchObject({ code: 'UNAVAILABLE', reason })
    expect(isNatsRefusal(error)).toBe(isRefused)
  })

  test('quote no password', () => {
    expect(natsError(new Error('cannot reach nats://ann:secret@host')).message).not.toMatch('secret')
  })
})

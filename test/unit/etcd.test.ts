import { describe, expect, test } from 'vitest'
import { claimOf } from '../support/claims.ts'
import { etcd } from '../../src/drivers/etcd/driver.ts'
import { parseEtcdUrl } from '../../src/drivers/etcd/rpc/address.ts'
import { BatchedTransactions } from '../../src/drivers/etcd/batched-transactions.ts'
import { decodeEtcdDocument } from '../../src/drivers/etcd/document.ts'
import { answeredNo, code, etcdError, isEtcdRefusal, noAnswerFrom } from '../../src/drivers/etcd/rpc/errors.ts'
import { frame, FrameReader } from '../../src/drivers/etcd/rpc/frames.ts'
import { EtcdKeyspace } from '../../src/drivers/etcd/keyspace.ts'
import { rangeOperation, remove } from '../../src/drivers/etcd/rpc/messages.ts'
import { BadMessage, bytes, field, message, MessageType, integerField } from '../../src/drivers/etcd/rpc/protobuf.ts'
import { sendInSlices, slicesOf } from '../../src/drivers/document/document-send.ts'

describe('the URL', () => {
  test('names nodes, a login, TLS and a prefix', () => {
    expect(parseEtcdUrl('etcd://one')).toEqual({ endpoints: [{ host: 'one', port: 2379 }], tls: false })
    expect(parseEtcdUrl('etcds://ann:p%40ss@one:80,[::1]:23/my/locks')).toEqual({
      endpoints: [
        { host: 'one', port: 80 },
        { host: '::1', port: 23 },
      ],
      tls: true,
      login: { user: 'ann', password: 'p@ss' },
      prefix: 'my/locks',
    })
    expect(parseEtcdUrl('etcd://one?prefix=my%2Flocks')).toMatchObject({ prefix: 'my/locks' })
    expect(parseEtcdUrl('etcd://one/?prefix=my/locks')).toMatchObject({ prefix: 'my/locks' })
  })

  test.each([
    'etcd:',
    'etcd://',
    'etcd://,',
    'etcd://one,,two',
    'etcd://user@one',
    'etcd://one:port',
    'etcd://one/%zz',
    'http://one',
    'etcd://secret:word@',
    'etcd://one/a?prefix=b',
    'etcd://one?prefix=a&prefix=b',
    'etcd://me:12?secret@one',
    'etcd://me:12?prefix=secret@one',
  ])('is refused where it makes no sense, without repeating it: %s', (url) => {
    expect(() => parseEtcdUrl(url)).toThrow(expect.objectContaining({ code: 'INVALID' }))
    expect(() => parseEtcdUrl(url)).not.toThrow('secret')
  })

  test('and the options are checked before anything is opened', () => {
    for (const options of [
      { prefix: '' },
      { prefix: 'a\nb' },
      { timeout: 0 },
      { ttl: -1 },
      { ttl: 100, heartbeat: 80 },
    ]) {
      expect(() => etcd('etcd://one', options)).toThrow(expect.objectContaining({ code: 'INVALID' }))
    }
  })
})

describe('names in etcd', () => {
  const keyspace = new EtcdKeyspace('locks')

  test('tell keys and claims apart, whatever they are called', () => {
    for (const key of ['a', 'a%', 'a%:', 'a%25', 'a/b', 'ä%:b']) {
      const marker = keyspace.marker(key, 'id%:1')
      expect(keyspace.claimOfMarker(marker)).toEqual({ key, id: 'id%:1' })
      expect(keyspace.keyOfDocument(keyspace.document(key))).toBe(key)
      expect(keyspace.keyOfNotification('me', keyspace.notification('me', key))).toBe(key)
    }
  })

  test('of the markers of one key are not among those of another', () => {
    const within = (key: string, other: string): boolean => {
      const { key: first, end } = keyspace.markers(key)
      const marker = Buffer.from(keyspace.marker(other, 'id'))
      return Buffer.compare(Buffer.from(first), marker) <= 0 && Buffer.compare(marker, end) < 0
    }
    expect(within('a', 'a')).toBe(true)
    for (const other of ['a%', 'a%:', 'a/b', 'aa', 'b', '']) expect(within('a', other)).toBe(false)
  })
})

describe('messages', () => {
  const inner = new MessageType<{ small: number; large: number }>({ small: field.number(1), large: field.number(2) })
  const outer = new MessageType<{
    text: string
    inner: object
    list: readonly object[]
    isThere: boolean
    none?: object
  }>({
    text: field.text(1),
    inner: field.message(2, inner),
    list: field.repeated(3, () => inner),
    isThere: field.flag(4),
    none: field.optional(5, () => inner),
  })

  test('are read as they were written, and what is missing as empty', () => {
    const numbers = message(integerField(1, 300), integerField(2, 2 ** 50 + 1))
    const data = message(
      bytes(3, numbers),
      bytes(1, 'text'),
      integerField(4, 1),
      bytes(3, integerField(1, 1)),
      integerField(9, 7),
      bytes(2, numbers),
    )
    const read = { small: 300, large: 2 ** 50 + 1 }
    const list = [read, { small: 1, large: 0 }]
    expect(outer.read(data)).toEqual({ text: 'text', inner: read, list, isThere: true })
    const empty = { text: '', inner: { small: 0, large: 0 }, list: [], isThere: false }
    expect(outer.read(Buffer.alloc(0))).toEqual(empty)
  })

  test('a number below zero is read as such', () => {
    expect(inner.read(Buffer.from([8, ...Array.from({ length: 9 }, () => 0xff), 1]))).toMatchObject({ small: -1 })
  })

  test.each([[[0x0a, 5, 1]], [[0x08]], [[0x08, 0xff]], [[0x0f]], [[0x08, 1]], [[0x22, 0]]])(
    'that are cut off, damaged, or of another kind are refused: %j',
    (data) => {
      expect(() => outer.read(Buffer.from(data))).toThrow(BadMessage)
    },
  )

  test('longer than any that etcd sends are refused before they have come', () => {
    const reader = new FrameReader(() => {})
    const head = Buffer.from([0, 0xff, 0xff, 0xff, 0xff])
    expect(() => reader.push(head)).toThrow(BadMessage)
  })

  test('come wholeNumber, however they were cut on the way', () => {
    const stream = Buffer.concat([frame(Buffer.from('one')), frame(Buffer.alloc(0)), frame(Buffer.from('three'))])
    for (const size of [1, 2, 7, 100]) {
      const received: string[] = []
      const reader = new FrameReader((data) => received.push(data.toString()))
      for (let at = 0; at < stream.length; at += size) reader.push(stream.subarray(at, at + size))
      expect(received).toEqual(['one', '', 'three'])
    }
  })
})

describe('faults', () => {
  test.each([
    [answeredNo(code.exhausted, 'etcdserver: mvcc: database space exceeded'), 'full', true],
    [answeredNo(code.exhausted, 'etcdserver: too many requests'), 'busy', true],
    [answeredNo(code.forbidden, 'etcdserver: permission denied'), 'auth', true],
    [answeredNo(code.unavailable, 'etcdserver: leader changed'), 'failover', false],
    [answeredNo(code.unavailable, 'etcdserver: request timed out'), 'no-answer', false],
    [noAnswerFrom('node', 'did not answer'), 'no-answer', false],
  ])('are explained, and whether nothing was done is known: %s', (fault, reason, refused) => {
    expect(etcdError(fault)).toMatchObject({ code: 'UNAVAILABLE', reason })
    expect(isEtcdRefusal(fault)).toBe(refused)
  })

  test('a document that is none is damaged, not empty', () => {
    for (const text of ['', 'garbage', 'null', '7', '"text"']) {
      expect(decodeEtcdDocument(Buffer.from(text)).document?.lastFence).toBeNaN()
    }
    expect(decodeEtcdDocument(undefined).document).toBeUndefined()
  })
})

test('an answer that leaves something out is none: it does not say that there is nothing', async () => {
  const replies = [
    // Nothing at all; and one that was carried out, of which only the first part is told.
    Buffer.alloc(0),
    message(integerField(2, 1), bytes(3, bytes(1, Buffer.alloc(0)))),
  ]
  for (const data of replies) {
    const client = { call: async () => ({ data, session: {} as never, callNumber: 1 }) }
    const transactions = new BatchedTransactions(client, { confirm() {} })
    const reading = [rangeOperation({ key: 'a' }), rangeOperation({ key: 'b' })]
    await expect(transactions.read([reading], 1000)).rejects.toThrow(BadMessage)
    const writer = { compare: [], success: [remove('a'), remove('b')], failure: reading }
    for (const batch of [[writer], [writer, writer]]) {
      const outcomes = await transactions.write(batch, 1000)
      expect(outcomes).toEqual(batch.map(() => ({ fault: expect.any(BadMessage) as BadMessage })))
      expect(outcomes.every((outcome) => 'fault' in outcome && !isEtcdRefusal(outcome.fault))).toBe(true)
    }
  }
})

describe('many requests for one key', () => {
  const requests = Array.from(
    { length: 100 },
    (_, index) => ({ op: 'claim', claim: claimOf(index % 4 === 0 ? 'b' : 'a') }) as const,
  )

  test('go in slices, in their order', () => {
    const slices = slicesOf(requests, 40)
    expect(slices.flat()).toEqual(requests)
    for (const slice of slices) {
      const forOneKey = slice.filter((request) => request.op === 'claim' && request.claim.key === 'a')
      expect(forOneKey.length).toBeLessThanOrEqual(40)
    }
  })

  test('are answered one for one, and nothing is sent after a slice that failed', async () => {
    const error = new Error('cut off')
    const sent: number[] = []
    const statuses = await sendInSlices(requests.concat(requests), 40, async (slice) => {
      sent.push(slice.length)
      if (sent.length === 2) throw error
      return slice.map(() => ({ state: 'absent', reason: 'refused' }) as const)
    })
    expect(sent).toHaveLength(2)
    expect(statuses).toHaveLength(200)
    expect(statuses.slice(sent[0])).toEqual(
      Array.from({ length: 200 - (sent[0] ?? 0) }, () => ({ state: 'unknown', error })),
    )
    await expect(sendInSlices(requests, 40, () => Promise.reject(error))).rejects.toBe(error)
  })
})

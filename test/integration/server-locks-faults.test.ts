/** What callers of single locks may get wrong, may not do, and what may fail between them and the store. */
import { once } from 'node:events'
import { connect as connectSocket } from 'node:net'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { LockDriver, Request } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { LeaseholdError } from '../../src/index.ts'
import type { TokenOptions } from '../../src/server/index.ts'
import { around } from '../support/around.ts'
import { get, type Called } from '../support/called.ts'
import { deferred } from '../support/deferred.ts'
import { eventually } from '../support/eventually.ts'
import { leaseIn, LockCalls } from '../support/lock-calls.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

const id = 'a'.repeat(32)

function expectProblem(answer: Called, status: number, code: string, detail: RegExp = /./): void {
  expect(answer.headers.get('content-type')).toBe('application/problem+json')
  const title = expect.stringMatching(/./) as unknown
  expect(answer.value).toMatchObject({
    type: `urn:leasehold:${code}`,
    title,
    status,
    code,
    detail: expect.stringMatching(detail) as unknown,
  })
  expect(answer.status).toBe(status)
}

describe('bad input is refused with a problem that says what is wrong', () => {
  test.each([
    ['ttl=30', /ttl.*unit/],
    ['ttl=soon', /ttl.*unit/],
    ['ttl=-1s', /ttl.*unit/],
    ['ttl=0', /ttl must be from/],
    ['ttl=900d', /ttl must be from/],
    ['wait=1', /wait.*unit/],
    ['wait=61s', /lets a call wait 60000 ms/],
    ['mode=both', /mode must be one of exclusive, shared/],
    ['limit=0', /limit must be a whole number/],
    ['limit=many', /limit must be a whole number/],
    ['limit=2&mode=exclusive', /limit is for shared locks/],
    ['priority=2000', /priority must be a whole number/],
    ['priority=--1', /priority must be a whole number/],
    ['patience=5s', /no parameter "patience"/],
    ['ttl=5s&ttl=6s', /ttl is there twice/],
  ])('PUT with %s', async (query, detail) => {
    const { url } = await startServer()
    expectProblem(await new LockCalls(url).put('orders/42', { query }), 400, 'INVALID', detail)
  })

  test.each<
    [string, { method: string; path: string; headers?: Record<string, string>; body?: string }, number, RegExp]
  >([
    ['a namespace with a space', { method: 'PUT', path: 'a%20b/c' }, 400, /namespace/],
    ['a name with a line break', { method: 'PUT', path: 'a/b%0Ac' }, 400, /control character/],
    ['a name that is too long', { method: 'PUT', path: `a/${'b'.repeat(600)}` }, 400, /600 bytes/],
    ['a name that is badly encoded', { method: 'GET', path: 'a/%E0%A4%A' }, 400, /not well encoded/],
    ['no name', { method: 'GET', path: 'a' }, 404, /nothing at/],
    ['a method that there is not', { method: 'PATCH', path: 'a/b' }, 405, /takes PUT, DELETE, GET/],
    ['a URL that is too long', { method: 'GET', path: `a/${'b'.repeat(9000)}` }, 414, /longer than/],
    [
      'an id that can be guessed',
      { method: 'PUT', path: 'a/b', headers: { 'leasehold-id': 'me' } },
      400,
      /128 random bits/,
    ],
    ['a renewal without an id', { method: 'POST', path: 'a/b/renew?ttl=5s' }, 400, /Leasehold-Id/],
    [
      'a renewal without a ttl',
      { method: 'POST', path: 'a/b/renew', headers: { 'leasehold-id': id } },
      400,
      /needs ttl/,
    ],
    ['a release without an id', { method: 'DELETE', path: 'a/b' }, 400, /Leasehold-Id/],
    [
      'a body that is a form',
      { method: 'PUT', path: 'a/b', headers: { 'content-type': 'application/x-www-form-urlencoded' }, body: 'ttl=5s' },
      415,
      /application\/json/,
    ],
    [
      'a body that is no JSON',
      { method: 'PUT', path: 'a/b', headers: { 'content-type': 'application/json' }, body: '{' },
      400,
      /not JSON/,
    ],
    [
      'a body with more in it',
      { method: 'PUT', path: 'a/b', headers: { 'content-type': 'application/json' }, body: '{"ttl":5}' },
      400,
      /"ttl", which means nothing/,
    ],
    [
      'metadata that is a list',
      { method: 'PUT', path: 'a/b', headers: { 'content-type': 'application/json' }, body: '{"metadata":[]}' },
      400,
      /metadata must be an object/,
    ],
  ])('%s', async (_, { method, path, headers = {}, body }, status, detail) => {
    const { url } = await startServer()
    const response = await fetch(`${url}/v1/locks/${path}`, { method, headers, ...(body !== undefined && { body }) })
    const text = await response.text()
    expectProblem(
      { status: response.status, headers: response.headers, text, value: JSON.parse(text) },
      status,
      'INVALID',
      detail,
    )
  })
})

test('a name may have slashes, written as they are or encoded, and end in /renew', async () => {
  const { url } = await startServer()
  const calls = new LockCalls(url)
  const lease = await calls.take('a/b ü/renew')
  const plain = await fetch(`${url}/v1/locks/default/a/b%20%C3%BC/renew`)
  expect(await plain.json()).toMatchObject({ name: 'a/b ü/renew', held: 1 })
  expect(leaseIn(await calls.renew('a/b ü/renew', { id: lease.id })).fence).toBe(lease.fence)
})

const tokens: readonly TokenOptions[] = [
  { name: 'worker', token: tokenOf('worker'), namespaces: ['billing'], rights: ['lock', 'read'] },
  { name: 'viewer', token: tokenOf('viewer'), namespaces: '*', rights: ['read'] },
  { name: 'blind', token: tokenOf('blind'), namespaces: '*', rights: ['lock'] },
]

test('a token locks, and looks, where it may and not elsewhere', async () => {
  const { url } = await startServer({ tokens })
  const [billing, payroll] = [new LockCalls(url, 'billing'), new LockCalls(url, 'payroll')]
  const [worker, viewer, blind] = ['worker', 'viewer', 'blind'].map((name) => ({ token: tokenOf(name) })) as [
    { token: string },
    { token: string },
    { token: string },
  ]
  const none = await billing.put('invoice')
  expectProblem(none, 401, 'UNAVAILABLE')
  expect(none.headers.get('www-authenticate')).toBe('Bearer')
  expectProblem(await billing.put('invoice', { token: tokenOf('unknown') }), 401, 'UNAVAILABLE')
  const lease = await billing.take('invoice', worker)
  const { value } = await billing.get('invoice', worker)
  expect(value).toMatchObject({ holders: [{ runner: { metadata: { via: 'worker' } } }] })
  for (const answer of [
    await payroll.put('salaries', worker),
    await payroll.renew('salaries', { id, ...worker }),
    await payroll.delete('salaries', { id, ...worker }),
    await payroll.get('salaries', worker),
    await billing.put('invoice', viewer),
    await billing.renew('invoice', { id: lease.id, ...viewer }),
    await billing.delete('invoice', { id: lease.id, ...viewer }),
    await billing.get('invoice', blind),
  ]) {
    expectProblem(answer, 403, 'UNAVAILABLE', /token/)
  }
  expect((await billing.get('invoice', viewer)).value).toMatchObject({ held: 1 })
  expect((await billing.get('invoice', viewer)).text).not.toContain(lease.id)
})

function waitingIn({ value }: Called): number {
  return (value as { waiting: number }).waiting
}

test('calls that wait take no place among the calls under way, and have a limit of their own', async () => {
  const { url } = await startServer({ limits: { callsMax: 1, waitsMax: 3 } })
  const calls = new LockCalls(url)
  const holder = await calls.take('orders/42')
  const waiting: Promise<unknown>[] = []
  for (const count of [1, 2, 3]) {
    waiting.push(calls.take('orders/42', { query: 'wait=60s&limit=9' }))
    // A look that comes while the claim is on its way to the store is one call too many.
    await eventually(async () => waitingIn(await calls.get('orders/42')) === count, 'one more that waits')
  }
  const more = await calls.put('orders/42', { query: 'wait=60s' })
  expectProblem(more, 429, 'UNAVAILABLE', /3 calls wait already/)
  expect(more.headers.get('retry-after')).toBe('1')
  await calls.delete('orders/42', { id: holder.id })
  await Promise.all(waiting)
})

test('a call that may wait is refused on a connection that has another call before it', async () => {
  const { url } = await startServer()
  const socket = connectSocket(Number(new URL(url).port), '127.0.0.1')
  await once(socket, 'connect')
  const call = (wait: string): string => `PUT /v1/locks/default/a?wait=${wait} HTTP/1.1\r\nhost: localhost\r\n\r\n`
  await new LockCalls(url).take('a')
  let text = ''
  socket.on('data', (data: Buffer) => (text += data.toString()))
  socket.write(call('50ms') + call('60s'))
  await eventually(() => /409 Conflict[^]*400 Bad Request[^]*connection of its own/.test(text), 'both answers')
  socket.destroy()
})

/** A memory store whose answers to claims are kept back until they are let go. */
function slowStore(): { driver: LockDriver; letGo: () => void; sent: Request[] } {
  const inner = memory()
  const sent: Request[] = []
  const { promise: held, resolve: letGo } = deferred()
  const send: LockDriver['send'] = async (requests) => {
    sent.push(...requests)
    const statuses = await inner.send(requests)
    if (requests.some(({ op }) => op === 'claim')) await held
    return statuses
  }
  return { driver: around(inner, { send }), letGo, sent }
}

describe('a caller that goes before it learns of its grant', () => {
  test('leaves nothing held if the server made the id', async () => {
    const { driver, letGo, sent } = slowStore()
    const { url } = await startServer({ driver })
    const calls = new LockCalls(url)
    const gone = new AbortController()
    const call = calls.put('orders/42', { signal: gone.signal })
    await eventually(() => sent.length === 1, 'the claim')
    expect(await calls.look('orders/42')).toMatchObject({ held: 1 })
    gone.abort()
    await expect(call).rejects.toThrow()
    // The server reads what came before these calls, the end of the connection too, before it answers the second one.
    for (const _ of [1, 2]) await calls.look('orders/42')
    letGo()
    await eventually(async () => (await calls.look('orders/42')).held === 0, 'the release')
  })

  test('finds it held if the id is its own, however often it asks', async () => {
    const { driver, letGo, sent } = slowStore()
    const { url } = await startServer({ driver })
    const calls = new LockCalls(url)
    const gone = new AbortController()
    const call = calls.put('orders/42', { id, signal: gone.signal })
    await eventually(() => sent.length === 1, 'the claim')
    gone.abort()
    await expect(call).rejects.toThrow()
    for (const _ of [1, 2]) await calls.look('orders/42')
    letGo()
    for (const _ of [1, 2]) expect(await calls.look('orders/42')).toMatchObject({ held: 1 })
    const lease = await calls.take('orders/42', { id })
    expect(await calls.take('orders/42', { id })).toMatchObject({ fence: lease.fence })
    expect(sent.map(({ op }) => op)).not.toContain('release')
  })
})

/** A memory store that carries claims out and fails to answer them, while told to. */
function failingStore(): { driver: LockDriver; fail: (isFailing: boolean) => void } {
  const inner = memory()
  let isFailing = false
  const error = new LeaseholdError('UNAVAILABLE', 'The line is cut.', { reason: 'network' })
  const send: LockDriver['send'] = async (requests) => {
    const statuses = await inner.send(requests)
    return statuses.map((status, index) =>
      isFailing && requests[index]?.op !== 'release' ? { state: 'unknown', error } : status,
    )
  }
  return { driver: around(inner, { send }), fail: (wanted) => void (isFailing = wanted) }
}

describe('a store that fails', () => {
  test('to answer a claim is a problem; nothing is left of an id that nobody knows', async () => {
    const { driver, fail } = failingStore()
    const { url } = await startServer({ driver })
    const calls = new LockCalls(url)
    fail(true)
    const unanswered = await calls.put('orders/42')
    expectProblem(unanswered, 503, 'UNAVAILABLE')
    // What the store says may name its host: the log has that.
    expect(unanswered.value).toMatchObject({ reason: 'network' })
    expect(unanswered.text).not.toContain('The line is cut.')
    expect(await calls.look('orders/42')).toMatchObject({ held: 0 })
    expectProblem(await calls.put('orders/42', { id }), 503, 'UNAVAILABLE')
    fail(false)
    expect(await calls.take('orders/42', { id })).toMatchObject({ id })
    fail(true)
    expectProblem(await calls.renew('orders/42', { id }), 503, 'UNAVAILABLE')
  })

  test('for a while costs a caller that waits nothing', async () => {
    const { driver, fail } = failingStore()
    const { url } = await startServer({ driver })
    const calls = new LockCalls(url)
    const holder = await calls.take('orders/42')
    const waiting = calls.take('orders/42', { query: 'ttl=3s&wait=60s' })
    await eventually(async () => (await calls.look('orders/42')).waiting === 1, 'the call that waits')
    fail(true)
    await calls.delete('orders/42', { id: holder.id })
    await eventually(async () => (await calls.look('orders/42')).held === 1, 'the grant')
    fail(false)
    expect((await waiting).fence).toBeGreaterThan(holder.fence)
  })
})

test('a lease that is over before its answer is lost, and no fault of the server: its caller chose how long it lasts', async () => {
  const store = memory()
  const slow = around(store, {
    send: async (requests) => {
      const statuses = await store.send(requests)
      if (requests.some(({ op }) => op !== 'release')) await pause(40)
      return statuses
    },
  })
  const { url } = await startServer({ driver: slow })
  const calls = new LockCalls(url)
  expectProblem(
    await calls.put('orders/42', { query: 'ttl=1ms' }),
    409,
    'LOST',
    /lasts 1 ms, and the store took \d+ ms/,
  )
  const { id: held } = leaseIn(await calls.put('orders/43', { query: 'ttl=30s' }))
  expectProblem(await calls.renew('orders/43', { id: held, query: 'ttl=20ms' }), 409, 'LOST', /lasts 20 ms/)
  expect((await get(`${url}/metrics`)).text).not.toMatch(/status="5/)
})

test('a store without a queue is not waited for', async () => {
  const inner = memory()
  const { url } = await startServer({
    driver: around(inner, { supports: { ...inner.supports, queue: false, limit: false } }),
  })
  const calls = new LockCalls(url)
  expectProblem(await calls.put('orders/42', { query: 'wait=5s' }), 501, 'UNSUPPORTED', /no queue/)
  expectProblem(await calls.put('orders/42', { query: 'limit=5' }), 501, 'UNSUPPORTED', /limits/)
  await calls.take('orders/42')
})

test('the OpenAPI document has examples that fit it, and fits what is answered', async () => {
  const { url } = await startServer()
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as {
    paths: Record<
      string,
      Record<string, { responses: Record<string, { content: Record<string, { example?: unknown }> }> }>
    >
  }
  const ajv = new Ajv2020({ strict: false, formats: { 'date-time': true } })
  ajv.addSchema(document, 'document')
  const check = (path: string, method: string, status: string, type: string, value: unknown): void => {
    const parts = ['paths', path, method, 'responses', status, 'content', type, 'schema']
    const pointer = parts.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')
    const validate = ajv.compile({ $ref: `document#/${pointer}` })
    expect(validate(value) ? '' : ajv.errorsText(validate.errors)).toBe('')
  }
  const lock = '/v1/locks/{namespace}/{name}'
  for (const [path, method] of [
    [lock, 'put'],
    [lock, 'delete'],
    [`${lock}/renew`, 'post'],
  ] as const) {
    const responses = document.paths[path]?.[method]?.responses
    check(path, method, '200', 'application/json', responses?.['200']?.content['application/json']?.example)
    const problem = responses?.['default']?.content['application/problem+json']?.example
    check(path, method, 'default', 'application/problem+json', problem)
  }
  const calls = new LockCalls(url)
  const lease = await calls.put('orders/42', { id })
  check(lock, 'put', '200', 'application/json', lease.value)
  check(lock, 'put', 'default', 'application/problem+json', (await calls.put('orders/42')).value)
  check(lock, 'get', '200', 'application/json', (await calls.get('orders/42')).value)
  check(`${lock}/renew`, 'post', '200', 'application/json', (await calls.renew('orders/42', { id })).value)
  check(lock, 'delete', '200', 'application/json', (await calls.delete('orders/42', { id })).value)
  check(lock, 'delete', '200', 'application/json', (await calls.delete('orders/42', { id })).value)
})

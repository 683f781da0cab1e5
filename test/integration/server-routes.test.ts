import { once } from 'node:events'
import { connect as connectSocket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Claim, LockDriver, Request } from '../../src/core/contract/driver.ts'
import { http } from '../../src/drivers/http/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { createLocks, LeaseholdError } from '../../src/index.ts'
import { json, serve, type Route } from '../../src/server/index.ts'
import { Sessions } from '../../src/server/store/sessions.ts'
import { fakeTime } from '../../src/testing/index.ts'
import { around } from '../support/around.ts'
import { get, post, postRequests } from '../support/called.ts'
import { claimOf } from '../support/claims.ts'
import { startServer } from '../support/started-server.ts'
import { eventually } from '../support/eventually.ts'
import { parseExposition } from '../support/exposition-parser.ts'
import { deferred } from '../support/deferred.ts'
import { anybody } from '../../src/server/auth/tokens.ts'

/** A memory store whose sends wait until they are let go. */
function patientStore(): { driver: LockDriver; sends: Request[][]; letGo: () => void } {
  const driver = memory()
  const sends: Request[][] = []
  const send = driver.send.bind(driver)
  const { promise: held, resolve: letGo } = deferred()
  driver.send = async (requests) => {
    sends.push([...requests])
    await held
    return send(requests)
  }
  return { driver, sends, letGo }
}

const key = 'default/named:one'
const released = { statuses: [{ state: 'absent', reason: 'released' }] }

test('a claim is made, listed without its id, and released', async () => {
  const { url } = await startServer()
  const claim = claimOf(key)
  expect((await postRequests(url, [{ op: 'claim', claim }])).value).toMatchObject({ statuses: [{ state: 'held' }] })
  const { value } = await get(`${url}/v1/keys?key=${key}`)
  expect(value).toMatchObject({ keys: [{ key, claims: [{ id: '', state: 'held' }] }] })
  expect((await postRequests(url, [{ op: 'release', key, id: claim.id }])).value).toEqual(released)
})

test('calls that arrive in one turn of the event loop go to the store in one send', async () => {
  const { driver, sends, letGo } = patientStore()
  letGo()
  const { port } = new URL((await startServer({ driver })).url)
  const sockets = [0, 1, 2, 3, 4, 5].map(() => connectSocket(Number(port), '127.0.0.1'))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  // Connections that the server has taken up, each with a call behind it.
  for (const socket of sockets) {
    socket.write('GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n')
    await once(socket, 'data')
  }
  for (const [index, socket] of sockets.entries()) {
    const body = JSON.stringify({ requests: [{ op: 'claim', claim: claimOf(`default/named:${index}`) }] })
    const head = 'POST /v1/requests HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json'
    socket.write(`${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  }
  // They are written from this very process, so the server sees them all when it next looks.
  await Promise.all(sockets.map((socket) => once(socket, 'data')))
  for (const socket of sockets) socket.destroy()
  expect(sends.flat()).toHaveLength(6)
  expect(sends.length).toBeLessThan(6)
})

test('a claim that waits is told to poll soon if its session has no stream here, and not if it has', async () => {
  const { url } = await startServer()
  const session = 's'.repeat(22)
  await postRequests(url, [{ op: 'claim', claim: claimOf(key) }])
  const claim = claimOf(key)
  const againMs = async (): Promise<number> => {
    const body = JSON.stringify({ requests: [{ op: 'claim', claim }] })
    const headers = { 'content-type': 'application/json', 'leasehold-session': session }
    const response = await fetch(`${url}/v1/requests`, { method: 'POST', headers, body })
    const { statuses } = (await response.json()) as { statuses: { state: string; againMs: number }[] }
    expect(statuses).toMatchObject([{ state: 'waiting' }])
    return statuses[0]?.againMs ?? Infinity
  }
  expect(await againMs()).toBeLessThanOrEqual(1000)
  const stream = await fetch(`${url}/v1/notifications`, { headers: { 'leasehold-session': session } })
  expect(await againMs()).toBeGreaterThan(10_000)
  await stream.body?.cancel()
  await eventually(async () => (await againMs()) <= 1000, 'the end of the stream')
})

describe('ids', () => {
  test('appear in no answer, but for one that the caller knows', async () => {
    const answers: string[] = []
    const driver = memory()
    const server = await startServer({
      driver,
      tokens: [{ name: 'all', token: 'a'.repeat(20), namespaces: '*', rights: ['lock', 'read', 'evict'] }],
    })
    const { url } = server
    const token = 'a'.repeat(20)
    const noted = async (answer: Promise<{ text: string; value: unknown }>): Promise<unknown> => {
      const { text, value } = await answer
      answers.push(text)
      return value
    }
    const claims = ['holder', 'waiter', 'other'].map((id) => claimOf(key, { id: `secret-${id}` }))
    for (const claim of claims) await noted(postRequests(url, [{ op: 'claim', claim }], token))
    await noted(postRequests(url, [{ op: 'renew', key, id: 'secret-holder', ttlMs: 5000 }], token))
    await noted(get(`${url}/v1/keys`, token))
    await noted(get(`${url}/v1/keys?key=${key}`, token))
    await noted(postRequests(url, [{ op: 'claim', claim: claimOf(key, { id: 'secret-fifth', evict: 'all' }) }], token))
    await noted(postRequests(url, [{ op: 'release', key, id: 'secret-fifth' }], token))
    await noted(postRequests(url, [{ op: 'withdraw', key, id: 'secret-other' }], token))
    await noted(postRequests(url, [{ op: 'renew', key: 'wrong/key', id: 'secret-waiter', ttlMs: 5000 }], token))
    await noted(
      post(
        `${url}/v1/requests`,
        JSON.stringify({ requests: [{ op: 'release', key, id: 'secret-waiter', x: 1 }] }),
        token,
      ),
    )
    for (const path of ['/v1/store', '/metrics', '/healthz', '/openapi.json', '/nothing'])
      await noted(get(url + path, token))
    const stream = await fetch(`${url}/v1/notifications`, {
      headers: { authorization: `Bearer ${token}`, 'leasehold-session': 'b'.repeat(22) },
    })
    await noted(postRequests(url, [{ op: 'release', key, id: 'secret-waiter' }], token))
    await server.close()
    answers.push(await stream.text())
    expect(answers).toHaveLength(18)
    expect(answers.filter((text) => text.includes('secret-'))).toEqual([])
  })

  test('that a caller names is shown, and only that', async () => {
    const { url } = await startServer()
    for (const id of ['first', 'zweite ü']) await postRequests(url, [{ op: 'claim', claim: claimOf(key, { id }) }])
    const known = { keys: [{ claims: [{ id: '' }, { id: 'zweite ü' }] }] }
    const { value } = await get(`${url}/v1/keys?key=${key}`, undefined, { 'leasehold-known': 'zweite%20%C3%BC' })
    expect(value).toMatchObject(known)
    expect(await get(`${url}/v1/keys`, undefined, { 'leasehold-known': '%zz' })).toMatchObject({ status: 400 })
    const driver = http(url)
    onTestFinished(() => driver.close())
    expect(await driver.list({ key, known: 'zweite ü' })).toMatchObject(known)
    for (const none of ['\ud800', 'x'.repeat(100_000)]) {
      expect(await driver.list({ key, known: none })).toMatchObject({ keys: [{ claims: [{ id: '' }, { id: '' }] }] })
    }
  })
})

describe('notifications', () => {
  test('goes to the session that sent the claim last, and to nobody else', async () => {
    const { url } = await startServer()
    const [one, other] = [http(url), http(url)]
    onTestFinished(() => one.close())
    onTestFinished(() => other.close())
    await Promise.all([one.open(), other.open()])
    const received: string[] = []
    one.listen?.(
      (_, id, notification) => void received.push(`one ${id} ${notification === 'poll' ? 'poll' : notification.state}`),
    )
    other.listen?.(
      (_, id, notification) =>
        void received.push(`other ${id} ${notification === 'poll' ? 'poll' : notification.state}`),
    )
    const [holder, waiter] = [claimOf(key, { id: 'holder' }), claimOf(key, { id: 'waiter' })]
    await one.send([{ op: 'claim', claim: holder }])
    await one.send([{ op: 'claim', claim: waiter }])
    await other.send([{ op: 'renew', key, id: 'waiter', ttlMs: 60_000 }])
    await one.send([{ op: 'release', key, id: 'holder' }])
    await eventually(() => received.length > 0, 'notifications')
    expect(received).toEqual(['other waiter held'])
  })

  test('whoever does not read it is cut off', async () => {
    const notify: ((event: string, data: unknown) => void)[] = []
    let disposed = 0
    const route: Route = {
      method: 'GET',
      path: '/flood',
      right: 'read',
      summary: 'A test.',
      handle: () => ({
        status: 200,
        headers: { 'content-type': 'text/event-stream' },
        body: {
          attach(send) {
            notify.push(send)
            return { [Symbol.dispose]: () => void (disposed += 1) }
          },
        },
      }),
    }
    const { url } = await startServer({ routes: [route] })
    const socket = connectSocket(Number(new URL(url).port), '127.0.0.1')
    socket.on('error', () => {})
    socket.write('GET /flood HTTP/1.1\r\nhost: localhost\r\n\r\n')
    await once(socket, 'data')
    socket.pause()
    const text = 'x'.repeat(10_000)
    await eventually(() => {
      for (let count = 0; count < 100; count += 1) notify[0]?.('flood', text)
      return disposed > 0
    }, 'the end of the stream')
    socket.destroy()
    expect(disposed).toBe(1)
  })

  test('claims that are not renewed for two ttls are forgotten, and never more than allowed are kept', () => {
    const time = fakeTime()
    const sessions = new Sessions(time.environment, { claimsMax: 3, claimsPerTokenMax: 3 }, (status) => status)
    const sent: unknown[] = []
    sessions.stream('me', anybody).attach(
      (_, data) => void sent.push(data),
      () => {},
    )
    const claim = (id: string, ttlMs: number): Request => ({ op: 'claim', claim: claimOf(key, { id, ttlMs }) })
    sessions.sending('me', claim('long', 100_000))
    sessions.sending('me', claim('short', 1000))
    time.block(2001)
    sessions.sending('me', claim('new', 1000))
    expect(sessions.claims).toBe(2)
    sessions.notify(key, 'short', 'poll')
    sessions.notify(key, 'long', 'poll')
    expect(sent).toEqual([{ key, id: 'long' }])
    for (const id of ['a', 'b', 'c', 'd']) sessions.sending('me', claim(id, 100_000))
    expect(sessions.claims).toBe(3)
  })
})

test('a newer stream of a session takes the place of an older one, and one that has ended is told nothing', () => {
  const sessions = new Sessions(fakeTime().environment, { claimsMax: 3, claimsPerTokenMax: 3 }, (status) => status)
  const told: string[] = []
  const attach = (name: string): Disposable =>
    sessions.stream('me', anybody).attach(
      () => void told.push(name),
      () => {},
    )
  const older = attach('older')
  const newer = attach('newer')
  older[Symbol.dispose]()
  sessions.sending('me', { op: 'claim', claim: claimOf(key, { id: 'mine' }) })
  sessions.notify(key, 'mine', 'poll')
  newer[Symbol.dispose]()
  sessions.notify(key, 'mine', 'poll')
  expect(told).toEqual(['newer'])
})

test('an older stream of a session ends when there is a newer one', async () => {
  const { url } = await startServer()
  const open = (session: string): Promise<Response> =>
    fetch(`${url}/v1/notifications`, { headers: { 'leasehold-session': session.repeat(22) } })
  const [older, other] = [await open('a'), await open('b')]
  const newer = await open('a')
  expect(await older.text()).toBe(':\n\n')
  expect((await get(`${url}/metrics`)).text).toContain('leasehold_server_streams_under_way 2')
  await Promise.all([newer.body?.cancel(), other.body?.cancel()])
})

describe('the OpenAPI document', () => {
  interface OpenApi {
    readonly openapi: string
    readonly paths: Readonly<
      Record<
        string,
        Readonly<Record<string, { responses: Record<string, { content?: Record<string, { schema: object }> }> }>>
      >
    >
    readonly components: { readonly schemas: Readonly<Record<string, object>> }
  }

  async function documentOf(url: string): Promise<{
    document: OpenApi
    check: (path: string, method: string, status: string, value: unknown) => void
    checkBody: (value: unknown) => boolean
  }> {
    const document = (await get(`${url}/openapi.json`)).value as OpenApi
    const ajv = new Ajv2020({ strict: false })
    ajv.addSchema(document, 'document')
    const validatorOf = (pointer: string) => {
      const validate = ajv.compile({ $ref: `document#${pointer}` })
      return (value: unknown): string => (validate(value) ? '' : ajv.errorsText(validate.errors))
    }
    const escape = (text: string): string => encodeURIComponent(text.replaceAll('~', '~0').replaceAll('/', '~1'))
    return {
      document,
      check(path, method, status, value) {
        const pointer = `/paths/${escape(path)}/${method}/responses/${status}/content/${escape('application/json')}/schema`
        expect(validatorOf(pointer)(value)).toBe('')
      },
      checkBody: (value) =>
        validatorOf(`/paths/${escape('/v1/requests')}/post/requestBody/content/${escape('application/json')}/schema`)(
          value,
        ) === '',
    }
  }

  test('describes every route, in schemas that are schemas', async () => {
    const { url } = await startServer({
      routes: [{ method: 'GET', path: '/mine', right: 'read', summary: 'Mine.', handle: () => json({}) }],
    })
    const { document } = await documentOf(url)
    expect(document.openapi).toBe('3.1.0')
    expect(Object.keys(document.paths).toSorted()).toEqual(
      [
        '/healthz',
        '/livez',
        '/metrics',
        '/mine',
        '/openapi.json',
        '/v1/keys',
        '/v1/locks/{namespace}/{name}',
        '/v1/locks/{namespace}/{name}/renew',
        '/v1/notifications',
        '/v1/requests',
        '/v1/store',
      ].toSorted(),
    )
    const ajv = new Ajv2020({ strict: true, allowUnionTypes: true })
    ajv.addSchema({ $id: 'document', components: document.components }, 'document')
    const schemas: object[] = []
    JSON.stringify(document, (name, value: unknown) => {
      if (name === 'schema') schemas.push(value as object)
      return value
    })
    expect(schemas.length).toBeGreaterThan(10)
    for (const schema of schemas) expect(ajv.validateSchema(schema)).toBe(true)
  })

  test('fits what is really asked and answered', async () => {
    const driver = memory()
    const { url } = await startServer({ driver })
    const { check, checkBody } = await documentOf(url)
    const base = claimOf(key, { id: 'whole' })
    const whole: Claim = {
      ...base,
      mode: 'shared',
      limit: 2,
      range: { start: 0, end: 10 },
      evict: 'stale',
      staleMs: 5,
      maxHoldMs: 60_000,
      detached: false,
      runner: { ...base.runner, owner: 'a/b', metadata: { what: 'ever' } },
    }
    const stories: Request[][] = [
      [{ op: 'claim', claim: whole }],
      [{ op: 'claim', claim: claimOf(key, { id: 'waiter' }) }],
      [{ op: 'claim', claim: claimOf(key, { id: 'refused', wait: false }) }],
      [{ op: 'renew', key, id: 'whole', ttlMs: 1000, fenceFloor: 5, detached: true }],
      [
        { op: 'claim', claim: claimOf(key, { id: 'force', evict: 'all' }) },
        { op: 'withdraw', key, id: 'waiter' },
      ],
      [
        { op: 'evict', key, fence: 1, reason: 'none' },
        { op: 'release', key, id: 'force' },
      ],
    ]
    for (const requests of stories) {
      expect(checkBody({ requests })).toBe(true)
      const { status, value } = await postRequests(url, requests)
      expect(status).toBe(200)
      check('/v1/requests', 'post', '200', value)
      check('/v1/keys', 'get', '200', (await get(`${url}/v1/keys`)).value)
    }
    driver.send = () => Promise.reject(new Error('inner detail'))
    const unknown = await postRequests(url, [{ op: 'release', key, id: 'x' }])
    expect(unknown.text).not.toContain('inner detail')
    check('/v1/requests', 'post', '200', unknown.value)
    check('/v1/store', 'get', '200', (await get(`${url}/v1/store`)).value)
    check('/healthz', 'get', '200', (await get(`${url}/healthz`)).value)
    check('/livez', 'get', '200', (await get(`${url}/livez`)).value)
    const broken = await startServer({ driver: around(memory(), { list: () => Promise.reject(new Error('gone')) }) })
    const down = await get(`${broken.url}/healthz`)
    expect(down.status).toBe(503)
    check('/healthz', 'get', 'default', down.value)
    check('/v1/requests', 'post', 'default', (await post(`${url}/v1/requests`, '{}')).value)
    expect(checkBody({ requests: [{ op: 'steal' }] })).toBe(false)
    expect(checkBody({ requests: [{ op: 'claim', claim: { ...whole, ttlMs: 0 } }] })).toBe(false)
  })
})

describe('operators see', () => {
  test('counts of calls, requests, refusals and streams', async () => {
    const { url } = await startServer()
    await postRequests(url, [
      { op: 'claim', claim: claimOf(key) },
      { op: 'claim', claim: claimOf(key) },
    ])
    await post(`${url}/v1/requests`, 'no json')
    const stream = await fetch(`${url}/v1/notifications`, { headers: { 'leasehold-session': 'a'.repeat(22) } })
    const { text, headers } = await get(`${url}/metrics`)
    await stream.body?.cancel()
    expect(headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    const families = parseExposition(text)
    const samples = (name: string) =>
      families.get(`leasehold_server_${name}`)?.samples.map(({ labels, value }) => ({ ...labels, value }))
    expect(samples('calls_total')).toContainEqual({ route: '/v1/requests', status: '200', value: 1 })
    expect(samples('calls_total')).toContainEqual({ route: '/v1/requests', status: '400', value: 1 })
    expect(samples('requests_total')).toEqual([
      { op: 'claim', state: 'held', value: 1 },
      { op: 'claim', state: 'waiting', value: 1 },
    ])
    expect(samples('refused_calls_total')).toEqual([{ why: 'body', value: 1 }])
    expect(samples('calls_under_way')).toEqual([{ value: 1 }])
    expect(samples('streams_under_way')).toEqual([{ value: 1 }])
    expect(samples('store_up')).toEqual([{ value: 1 }])
  })

  test('503 at /healthz when the store does not answer, and 200 at /livez', async () => {
    const driver = memory()
    driver.list = () => Promise.reject(new Error('gone'))
    const { url } = await startServer({
      driver,
      tokens: [{ name: 'a', token: 'a'.repeat(16), namespaces: '*', rights: ['read'] }],
    })
    const answer = await get(`${url}/healthz`)
    expect(answer).toMatchObject({ status: 503, value: { error: { code: 'UNAVAILABLE', reason: 'store' } } })
    expect(await get(`${url}/livez`)).toMatchObject({ status: 200, value: { status: 'ok' } })
  })

  test('health and counts also while as many calls are under way as may be', async () => {
    const { driver, sends, letGo } = patientStore()
    const { url } = await startServer({ driver, limits: { callsMax: 1 } })
    const call = postRequests(url, [{ op: 'release', key, id: 'x' }])
    await eventually(() => sends.length > 0, 'the call')
    expect(await get(`${url}/v1/keys`)).toMatchObject({ status: 429 })
    for (const path of ['/healthz', '/livez']) expect(await get(url + path)).toMatchObject({ status: 200 })
    expect((await get(`${url}/metrics`)).text).toContain('leasehold_server_refused_calls_total{why="limit"} 1')
    letGo()
    expect(await call).toMatchObject({ status: 200 })
  })

  test('in the log that the store fails, at once and then once a minute', async () => {
    const complaints: string[] = []
    const logger = { debug: () => {}, info: () => {}, warn: (message: string) => void complaints.push(message) }
    const time = fakeTime()
    const driver = memory()
    const gone = new LeaseholdError('UNAVAILABLE', 'Nobody answers.', { reason: 'network' })
    driver.send = () => Promise.reject(gone)
    driver.list = () => Promise.reject(gone)
    const { url } = await startServer({ driver, logger, environment: time.environment })
    const releases = [1, 2, 3].map(() => ({ op: 'release', key, id: 'x' }) as const)
    await postRequests(url, releases)
    expect(await get(`${url}/v1/keys`)).toMatchObject({ status: 503 })
    expect(complaints).toEqual(['the store failed: UNAVAILABLE: Nobody answers.'])
    time.block(60_000)
    expect(await get(`${url}/v1/keys`)).toMatchObject({ status: 503 })
    expect(complaints.slice(1)).toEqual([
      'the store failed: UNAVAILABLE: Nobody answers. (4 times since the last such line)',
    ])
  })

  test('500 without inner detail where a route fails, and the detail in the log', async () => {
    const complaints: string[] = []
    const logger = { debug: () => {}, info: () => {}, warn: (message: string) => void complaints.push(message) }
    const driver = memory()
    driver.list = () => Promise.reject(new TypeError('inner detail'))
    const { url } = await startServer({ driver, logger })
    const answer = await get(`${url}/v1/keys`)
    expect(answer).toMatchObject({ status: 500, value: { error: { code: 'UNAVAILABLE', reason: 'server' } } })
    expect(answer.text).not.toContain('inner detail')
    expect(complaints.join()).toContain('inner detail')
  })
})

describe('a server that closes', () => {
  test('answers the calls under way, ends the streams, closes the store, and may be closed again', async () => {
    const { driver, sends, letGo } = patientStore()
    let closed = false
    const close = driver.close.bind(driver)
    driver.close = async () => {
      closed = true
      await close()
    }
    const server = await startServer({ driver })
    const stream = await fetch(`${server.url}/v1/notifications`, { headers: { 'leasehold-session': 'a'.repeat(22) } })
    const call = postRequests(server.url, [{ op: 'claim', claim: claimOf(key) }])
    await eventually(() => sends.length > 0, 'the call')
    const closing = server.close()
    const closingAgain = server.close()
    expect(await stream.text()).toMatch(/^(:\n\n)+$/)
    // Longer than connections without a call are left open.
    await pause(250)
    expect(closed).toBe(false)
    letGo()
    expect(await call).toMatchObject({ status: 200, value: { statuses: [{ state: 'held' }] } })
    await Promise.all([closing, closingAgain])
    expect(closed).toBe(true)
    await expect(get(`${server.url}/healthz`)).rejects.toThrow()
  })

  test('refuses what comes on connections that are open still', async () => {
    const { driver, sends, letGo } = patientStore()
    const server = await startServer({ driver })
    const socket = connectSocket(Number(new URL(server.url).port), '127.0.0.1')
    let received = ''
    socket.setEncoding('utf8').on('data', (text: string) => (received += text))
    // Not read any more, the second call may also be refused by a reset.
    const ended = new Promise((resolve) => socket.on('error', () => {}).on('close', resolve))
    const body = JSON.stringify({ requests: [{ op: 'claim', claim: claimOf(key) }] })
    const head = 'POST /v1/requests HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json'
    socket.write(`${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
    await eventually(() => sends.length > 0, 'the call')
    const closing = server.close()
    socket.write('GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n')
    letGo()
    await Promise.all([closing, ended])
    expect(received).toContain('"held"')
    expect(received.match(/^HTTP\/1\.1 (\d+)/gm)?.[1] ?? 'HTTP/1.1 503').toBe('HTTP/1.1 503')
    expect(received).toMatch(/connection: close/i)
  })

  test('waits no longer than it was told', async () => {
    const { driver, letGo, sends } = patientStore()
    const server = await startServer({ driver, limits: { drainWithinMs: 20 } })
    const call = postRequests(server.url, [{ op: 'claim', claim: claimOf(key) }]).catch(() => 'cut')
    await eventually(() => sends.length > 0, 'the call')
    await server.close()
    expect(await call).toBe('cut')
    letGo()
  })
})

test('an address that is taken is told', async () => {
  const { url } = await startServer()
  const starting = serve({ driver: memory(), port: Number(new URL(url).port) })
  await expect(starting).rejects.toMatchObject({ code: 'UNAVAILABLE', message: expect.stringMatching(/EADDRINUSE/) })
})

test('locks are used over a server as over any store', async () => {
  const { url } = await startServer()
  const locks = await createLocks({ driver: http(url), allowForce: true })
  onTestFinished(() => locks.close())
  const lease = await locks.acquire('report', { ttl: '30s' })
  expect(await locks.tryAcquire('report')).toBeNull()
  expect(await locks.inspect('report')).toMatchObject({ holders: [{ fence: lease.fence }] })
  expect(await locks.evict('report', { reason: 'stuck' })).toBe(1)
  await eventually(() => !lease.held, 'the end of the lease')
})

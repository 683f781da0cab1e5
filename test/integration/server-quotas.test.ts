/** What one caller can take of a server: connections, calls, memory, streams, claims. */
import { once } from 'node:events'
import { connect as connectSocket, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Claim, LockDriver, Request } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { text, type Route, type TokenOptions } from '../../src/server/index.ts'
import { around } from '../support/around.ts'
import { get, post, postRequests, type Called } from '../support/called.ts'
import { claimOf, claiming } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

const tokens: readonly TokenOptions[] = [
  { name: 'hostile', token: tokenOf('hostile'), namespaces: ['hostile', 'both'], rights: ['lock', 'read'] },
  { name: 'victim', token: tokenOf('victim'), namespaces: ['victim', 'both'], rights: ['lock', 'read'] },
  { name: 'operator', token: tokenOf('operator'), namespaces: '*', rights: ['admin'] },
]

function open(url: string, ...written: readonly string[]): Socket {
  const socket = connectSocket(Number(new URL(url).port), '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {})
  for (const piece of written) socket.write(piece)
  return socket
}

/** Resolves when the connection is over, with an error or without. */
function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => void socket.once('close', () => resolve()).resume())
}

async function metric(url: string, name: string): Promise<number> {
  const { text: exposition } = await get(`${url}/metrics`, tokenOf('operator'))
  const line = exposition.split('\n').find((each) => each.startsWith(`${name} `))
  return line === undefined ? 0 : Number(line.slice(name.length + 1))
}

const dropped = (why: string): string => `leasehold_server_dropped_connections_total{why="${why}"}`
const refused = (quota: string): string => `leasehold_server_quota_refusals_total{quota="${quota}"}`
const getOf = (path: string, token?: string): string =>
  `GET ${path} HTTP/1.1\r\nhost: localhost\r\n${token === undefined ? '' : `authorization: Bearer ${token}\r\n`}\r\n`
const streamOf = (token: string): string =>
  getOf('/v1/notifications', token).replace(
    /\r\n$/,
    `leasehold-session: ${crypto.randomUUID().replaceAll('-', '')}\r\n\r\n`,
  )
const claims = (keys: readonly string[], wish: Partial<Claim> = {}): Request[] =>
  keys.map((key) => claiming(claimOf(key, wish)))
const statesOf = ({ value }: Called): readonly string[] =>
  (value as { readonly statuses: readonly { readonly state: string }[] }).statuses.map(({ state }) => state)

/** A route whose answer is more than the system keeps for a connection, and counts how often it was asked for. */
function longRoute(): { readonly route: Route; readonly asked: () => number } {
  let asked = 0
  const handle = () => {
    asked += 1
    return text('x'.repeat(10_000_000))
  }
  return { route: { method: 'GET', path: '/long', right: 'read', summary: 'A test.', handle }, asked: () => asked }
}

describe('a connection', () => {
  test('that sends calls and reads no answers is cut off after as many as may be under way, and that is logged once', async () => {
    const { route, asked } = longRoute()
    const warnings: string[] = []
    const logger = { debug: () => {}, info: () => {}, warn: (message: string) => void warnings.push(message) }
    const { url } = await startServer({ routes: [route], logger, limits: { callsPerConnectionMax: 4 } })
    for (let connections = 0; connections < 3; connections += 1) {
      await closed(open(url, getOf('/long').repeat(1000)))
    }
    expect(asked()).toBeLessThanOrEqual(12)
    expect(await metric(url, dropped('calls'))).toBe(3)
    expect(warnings).toEqual(['connections were cut off: 1 because they sent calls without reading the answers'])
  })

  test('may send a few calls at once, and gets their answers in order', async () => {
    const { url } = await startServer()
    const socket = open(url, getOf('/livez') + getOf('/v1/store') + getOf('/nothing'))
    let received = ''
    socket.on('data', (piece) => void (received += String(piece)))
    await eventually(() => received.includes('There is nothing at'), 'the last answer')
    expect(received.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200', 'HTTP/1.1 404'])
  })

  test('that is closed leaves nothing of the calls in a row whose turn to be answered had not come', async () => {
    const handle = () => text('x'.repeat(7_000_000))
    const route: Route = { method: 'GET', path: '/long', right: 'read', summary: 'A test.', handle }
    const { url } = await startServer({ routes: [route] })
    const before = await metric(url, 'leasehold_server_held_bytes')
    for (let connections = 0; connections < 3; connections += 1) {
      const socket = open(url, getOf('/long') + getOf('/v1/store').repeat(5))
      // The answers to all of them are ready, and wait behind the first.
      const isHeld = async (): Promise<boolean> => (await metric(url, 'leasehold_server_held_bytes')) > 7_000_000
      await eventually(isHeld, 'answers that are held')
      socket.destroy()
      const isFree = async (): Promise<boolean> => (await metric(url, 'leasehold_server_held_bytes')) <= before
      await eventually(isFree, 'nothing is held')
    }
  })

  test('is closed after an answer that asks for no token, and after a failed sign-in', async () => {
    const { url } = await startServer({ tokens })
    for (const path of ['/openapi.json', '/livez', '/nothing', '/v1/store']) {
      expect((await get(`${url}${path}`)).headers.get('connection')).toBe('close')
    }
    expect((await get(`${url}/v1/store`, tokenOf('victim'))).headers.get('connection')).toBe('keep-alive')
  })

  test('beyond those of its address is closed, unless a trusted proxy made it; others are counted on', async () => {
    const limits = { connectionsPerAddressMax: 3 }
    const { url } = await startServer({ limits })
    const kept = Array.from({ length: 3 }, () => open(url))
    await Promise.all(kept.map((socket) => once(socket, 'connect')))
    await closed(open(url))
    kept[0]?.destroy()
    await eventually(
      () =>
        get(`${url}/livez`)
          .then(({ status }) => status === 200)
          .catch(() => false),
      'room for another',
    )
    const trusting = await startServer({ limits, trustedProxies: ['127.0.0.1'] })
    const many = Array.from({ length: 6 }, () => open(trusting.url))
    await Promise.all(many.map((socket) => once(socket, 'connect')))
    expect((await get(`${trusting.url}/livez`)).status).toBe(200)
  })
})

describe('memory', () => {
  test('for answers that are not read is bounded: whoever has the most of it is cut off, others are not', async () => {
    const { route } = longRoute()
    const { url } = await startServer({ tokens, routes: [route], limits: { heldBytesMax: 40_000_000 } })
    const hoarders = Array.from({ length: 12 }, () => open(url, getOf('/long', tokenOf('hostile'))))
    await eventually(async () => (await metric(url, dropped('bytes'))) >= 8, 'the end of most hoarders')
    expect(await get(`${url}/long`, tokenOf('victim'))).toMatchObject({ status: 200 })
    expect(await metric(url, 'leasehold_server_held_bytes')).toBeLessThanOrEqual(40_000_000)
    for (const socket of hoarders) socket.destroy()
    await eventually(async () => (await metric(url, 'leasehold_server_held_bytes')) < 100_000, 'the memory back')
  })

  test('for bodies that do not end is bounded the same way', async () => {
    const { url } = await startServer({ tokens, limits: { heldBytesMax: 4_000_000 } })
    const head = `POST /v1/requests HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${tokenOf('hostile')}\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n`
    const hoarders = Array.from({ length: 20 }, () => open(url, head, ' '.repeat(900_000)))
    let cut = 0
    for (const socket of hoarders) socket.once('close', () => (cut += 1))
    await eventually(() => cut >= 15, 'the end of most hoarders')
    expect(await metric(url, dropped('bytes'))).toBeGreaterThanOrEqual(15)
    expect(await postRequests(url, claims(['victim/named:a']), tokenOf('victim'))).toMatchObject({ status: 200 })
  })
})

describe('a token', () => {
  test('whose bodies do not arrive takes no place of calls of others, and has no more than its share of them', async () => {
    const { url } = await startServer({ tokens, limits: { callsMax: 3, callsPerTokenMax: 5 } })
    const head = (token: string): string =>
      `POST /v1/requests HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{`
    for (let bodies = 0; bodies < 5; bodies += 1) open(url, head(tokenOf('hostile')))
    await eventually(async () => (await metric(url, 'leasehold_server_calls_under_way')) >= 6, 'the bodies')
    expect(await get(`${url}/v1/store`, tokenOf('hostile'))).toMatchObject({
      status: 429,
      value: { error: { code: 'UNAVAILABLE', reason: 'busy' } },
    })
    expect(await postRequests(url, claims(['victim/named:a']), tokenOf('victim'))).toMatchObject({ status: 200 })
    expect(await metric(url, refused('calls'))).toBe(1)
  })

  test('has no more than its share of the streams, and gets one again when one of them ends', async () => {
    const { url } = await startServer({ tokens, limits: { streamsMax: 4, streamsPerTokenMax: 2 } })
    const streams = [open(url, streamOf(tokenOf('hostile'))), open(url, streamOf(tokenOf('hostile')))]
    await Promise.all(streams.map((socket) => once(socket, 'data')))
    const answerTo = async (token: string): Promise<string> => {
      const socket = open(url, streamOf(token))
      return String((await once(socket, 'data'))[0]).split('\r\n', 1)[0] ?? ''
    }
    expect(await answerTo(tokenOf('hostile'))).toBe('HTTP/1.1 429 Too Many Requests')
    expect(await answerTo(tokenOf('victim'))).toBe('HTTP/1.1 200 OK')
    streams[0]?.destroy()
    await eventually(async () => (await answerTo(tokenOf('hostile'))).includes('200'), 'room for a stream')
  })

  test('has no more than its share of the calls that wait, and those of others wait on', async () => {
    const limits = { waitsMax: 4, waitsPerTokenMax: 2 }
    const { url } = await startServer({ tokens, limits })
    const put = (place: string, name: string, parameters = ''): Promise<Response> =>
      fetch(`${url}/v1/locks/${place}${parameters}`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${tokenOf(name)}`, 'leasehold-id': crypto.randomUUID() },
      })
    const held = (await (await put('victim/a', 'victim')).json()) as { readonly id: string }
    expect((await put('hostile/a', 'hostile')).status).toBe(200)
    const waiting = [1, 2].map(() => put('hostile/a', 'hostile', '?wait=3s'))
    const isWaiting = async (): Promise<boolean> => (await metric(url, 'leasehold_server_waits_under_way')) === 2
    await eventually(isWaiting, 'two calls that wait')
    // Bodies that do not arrive take places, too.
    const slow = open(
      url,
      `PUT /v1/locks/hostile/b?wait=3s HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${tokenOf('hostile')}\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{`,
    )
    expect(String((await once(slow, 'data'))[0])).toContain('HTTP/1.1 429 ')
    const third = await put('hostile/a', 'hostile', '?wait=3s')
    expect([third.status, third.headers.get('retry-after')]).toEqual([429, '1'])
    expect(await metric(url, refused('waits'))).toBe(2)
    const victim = put('victim/a', 'victim', '?wait=10s')
    await eventually(async () => (await metric(url, 'leasehold_server_waits_under_way')) === 3, 'a third that waits')
    await fetch(`${url}/v1/locks/victim/a`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${tokenOf('victim')}`, 'leasehold-id': held.id },
    })
    expect((await victim).status).toBe(200)
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([409, 409])
    // Its places are free again.
    expect((await put('hostile/b', 'hostile', '?wait=1s')).status).toBe(200)
  })

  test('that takes locks without waiting has no more than its share of the calls, as with any other', async () => {
    const { url } = await startServer({ tokens, limits: { callsPerTokenMax: 2 } })
    const head = `PUT /v1/locks/hostile/a HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${tokenOf('hostile')}\r\n`
    const body = 'content-type: application/json\r\ncontent-length: 10\r\n\r\n{'
    const answers: string[] = []
    for (let count = 0; count < 3; count += 1) {
      open(url, head + body).on('data', (piece) => void answers.push(String(piece)))
    }
    await eventually(() => answers.length > 0, 'an answer')
    expect(answers).toEqual([expect.stringContaining('HTTP/1.1 429 ')])
    expect(await metric(url, refused('calls'))).toBe(1)
  })

  test('has no more claims than its share: 429 with Retry-After, in place if others of the call are carried out', async () => {
    const { url } = await startServer({ tokens, limits: { claimsPerTokenMax: 3 } })
    const four = claims(['hostile/named:1', 'hostile/named:2', 'hostile/named:3', 'hostile/named:4'])
    const first = await postRequests(url, four, tokenOf('hostile'))
    expect(statesOf(first)).toEqual(['held', 'held', 'held', 'unknown'])
    const more = await postRequests(url, claims(['hostile/named:5']), tokenOf('hostile'))
    expect(more).toMatchObject({
      status: 429,
      value: { error: { code: 'UNAVAILABLE', reason: 'busy', retryAfterMs: 1000 } },
    })
    expect(more.headers.get('retry-after')).toBe('1')
    expect(statesOf(await postRequests(url, claims(['victim/named:1']), tokenOf('victim')))).toEqual(['held'])
    // What it has can be sent again, renewed and released.
    const [request] = four
    const { key, id } = request?.op === 'claim' ? request.claim : claimOf('')
    expect(statesOf(await postRequests(url, four.slice(0, 1), tokenOf('hostile')))).toEqual(['held'])
    const renewing: Request = { op: 'renew', key, id, ttlMs: 60_000 }
    expect(statesOf(await postRequests(url, [renewing], tokenOf('hostile')))).toEqual(['held'])
    await postRequests(url, [{ op: 'release', key, id }], tokenOf('hostile'))
    expect(statesOf(await postRequests(url, claims(['hostile/named:5']), tokenOf('hostile')))).toEqual(['held'])
    expect(await metric(url, refused('token-claims'))).toBe(2)
  })

  test('has no more waiters than its share, and one that is granted or released counts no more', async () => {
    const { url } = await startServer({ tokens, limits: { waitersPerTokenMax: 2 } })
    const held = claimOf('hostile/named:a')
    await postRequests(url, [claiming(held)], tokenOf('hostile'))
    const waiting = claims(['hostile/named:a', 'hostile/named:a'])
    expect(statesOf(await postRequests(url, waiting, tokenOf('hostile')))).toEqual(['waiting', 'waiting'])
    expect((await postRequests(url, claims(['hostile/named:a']), tokenOf('hostile'))).status).toBe(429)
    // The first waiter is granted, which the server learns from the store.
    await postRequests(url, [{ op: 'release', key: held.key, id: held.id }], tokenOf('hostile'))
    await eventually(async () => (await metric(url, 'leasehold_server_waiters')) === 1, 'the grant')
    expect(statesOf(await postRequests(url, claims(['hostile/named:a']), tokenOf('hostile')))).toEqual(['waiting'])
  })

  test('has no more memory for its claims than its share, whatever their metadata looks like', async () => {
    const { url } = await startServer({ tokens, limits: { claimBytesPerTokenMax: 1_000_000 } })
    const runner = { ...claimOf('').runner, metadata: { many: Array.from({ length: 2500 }, () => []) } }
    const keys = Array.from({ length: 20 }, (_, index) => `hostile/named:${index}`)
    const answer = await postRequests(url, claims(keys, { runner }), tokenOf('hostile'))
    expect(answer.text).toContain('statuses')
    const states = statesOf(answer)
    expect(states).toContain('held')
    expect(states.filter((state) => state === 'held').length).toBeLessThan(10)
    expect(states.at(-1)).toBe('unknown')
    expect(await metric(url, 'leasehold_server_claim_bytes')).toBeLessThanOrEqual(1_000_000)
  })

  test('gets its share back when its claims are over without a word', async () => {
    const { url } = await startServer({ tokens, limits: { claimsPerTokenMax: 2 } })
    const short = claims(['hostile/named:1', 'hostile/named:2'], { ttlMs: 100 })
    await postRequests(url, short, tokenOf('hostile'))
    const again = async () => (await postRequests(url, claims(['hostile/named:3']), tokenOf('hostile'))).status === 200
    await eventually(again, 'the share')
  })
})

test('a key has no more waiters than it may have, of all tokens together', async () => {
  const { url } = await startServer({ tokens, limits: { waitersPerKeyMax: 2 } })
  await postRequests(url, claims(['both/named:a']), tokenOf('hostile'))
  expect(statesOf(await postRequests(url, claims(['both/named:a', 'both/named:a']), tokenOf('hostile')))).toEqual([
    'waiting',
    'waiting',
  ])
  const refusal = await postRequests(url, claims(['both/named:a']), tokenOf('victim'))
  expect(refusal).toMatchObject({ status: 429, value: { error: { reason: 'busy' } } })
  // Without waiting it is answered.
  expect(statesOf(await postRequests(url, claims(['both/named:a'], { wait: false }), tokenOf('victim')))).toEqual([
    'absent',
  ])
})

test('all callers of a server without tokens have no more claims and memory than it takes', async () => {
  const { url } = await startServer({ limits: { claimsInAllMax: 2 } })
  expect(statesOf(await postRequests(url, claims(['a/named:1', 'a/named:2', 'a/named:3'])))).toEqual([
    'held',
    'held',
    'unknown',
  ])
})

describe('a listing', () => {
  test('is never longer than it may be, and its pages still have every key once', async () => {
    const { url } = await startServer({ limits: { listBytesMax: 20_000 } })
    const runner = { ...claimOf('').runner, metadata: { note: 'x'.repeat(3000) } }
    const keys = Array.from({ length: 30 }, (_, index) => `a/named:${String(index).padStart(2, '0')}`)
    await postRequests(url, claims(keys, { runner }))
    const seen: string[] = []
    let after: string | undefined
    do {
      const place = after === undefined ? '' : `&after=${encodeURIComponent(after)}`
      const { value, text: page } = await get(`${url}/v1/keys?prefix=a/${place}`)
      expect(page.length).toBeLessThanOrEqual(20_000)
      const { keys: listed, next } = value as {
        readonly keys: readonly { readonly key: string }[]
        readonly next?: string
      }
      seen.push(...listed.map(({ key }) => key))
      after = next
    } while (after !== undefined)
    expect(seen).toEqual(keys)
  })

  test('of a key with very many waiters shows as many of them as fit', async () => {
    const { url } = await startServer({ limits: { listBytesMax: 20_000 } })
    const runner = { ...claimOf('').runner, metadata: { note: 'x'.repeat(3000) } }
    await postRequests(
      url,
      claims(
        Array.from({ length: 50 }, () => 'a/named:crowd'),
        { runner },
      ),
    )
    const { status, text: page, value } = await get(`${url}/v1/keys?key=a/named:crowd`)
    expect({ status, isBounded: page.length <= 20_000 }).toEqual({ status: 200, isBounded: true })
    const { keys } = value as { readonly keys: readonly { readonly claims: readonly unknown[] }[] }
    expect(keys[0]?.claims.length).toBeGreaterThan(1)
    // A claim that is named is shown also if it stands at the end, and the page ends.
    const known = claimOf('a/named:crowd', { runner })
    await postRequests(url, [claiming(known)])
    const tiny = await get(`${url}/v1/keys?key=a/named:crowd&claims=1`, undefined, { 'leasehold-known': known.id })
    expect(tiny.text).toContain(known.id)
  })
})

test('requests of one token with short leases do not set how long batches of others may take', async () => {
  const batches: (readonly Request[])[] = []
  const driver = memory()
  const send: LockDriver['send'] = (requests) => {
    batches.push(requests)
    return driver.send(requests)
  }
  const { url } = await startServer({ tokens, driver: around(driver, { send }) })
  const long = claimOf('victim/named:long')
  const short = claimOf('hostile/named:short', { ttlMs: 100 })
  await postRequests(url, [claiming(long)], tokenOf('victim'))
  await postRequests(url, [claiming(short)], tokenOf('hostile'))
  batches.length = 0
  const renewal = ({ key, id, ttlMs }: Claim): Request => ({ op: 'renew', key, id, ttlMs })
  const rounds = Array.from({ length: 50 }, () => [
    postRequests(url, [renewal(long), ...claims(['victim/named:other'], { wait: false })], tokenOf('victim')),
    postRequests(url, [renewal(short)], tokenOf('hostile')),
  ])
  await Promise.all(rounds.flat())
  const isShort = (request: Request): boolean => request.op === 'renew' && request.ttlMs === 100
  const mixed = batches.filter((batch) => batch.some(isShort) && !batch.every(isShort))
  expect(mixed).toEqual([])
  expect(batches.flat().filter(isShort)).toHaveLength(50)
})

test('a body that is not read to its end is answered, and its connection closed', async () => {
  const { url } = await startServer({ tokens, limits: { bodyBytesMax: 100 } })
  expect(await post(`${url}/v1/requests`, ' '.repeat(1000), tokenOf('victim'))).toMatchObject({ status: 413 })
})

/** A tenant that lists much, and often, takes turns with others, and pays for it. */
import { connect as connectSocket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { dashboard } from '../../src/server/operators.ts'
import type { TokenOptions } from '../../src/server/index.ts'
import { around } from '../support/around.ts'
import { get, postRequests } from '../support/called.ts'
import { claimOf, claiming } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

const hostile = tokenOf('hostile')
const operator = tokenOf('operator')
const tokens: readonly TokenOptions[] = [
  { name: 'hostile', token: hostile, namespaces: ['hostile'], rights: ['lock', 'read'] },
  {
    name: 'operator',
    token: operator,
    namespaces: '*',
    rights: ['read', 'lock'],
    rate: { perSecond: 1e6, burst: 1e6 },
  },
]

const callsAtOnce = 12

/** A store that counts how often it is read in one turn of the event loop. */
function turnsSeen(): {
  readonly driver: LockDriver
  readonly mostInATurn: () => number
  readonly reads: () => number
} {
  const store = memory()
  let turn = 0
  let most = 0
  let reads = 0
  let here = { turn: -1, reads: 0 }
  let isOver = false
  const next = (): void => {
    turn += 1
    if (!isOver) setImmediate(next)
  }
  setImmediate(next)
  onTestFinished(() => void (isOver = true))
  const driver = around(store, {
    list: (query) => {
      reads += 1
      here = here.turn === turn ? { turn, reads: here.reads + 1 } : { turn, reads: 1 }
      most = Math.max(most, here.reads)
      return store.list(query)
    },
  })
  return { driver, mostInATurn: () => most, reads: () => reads }
}

async function fill(url: string, keys: number): Promise<void> {
  for (let from = 0; from < keys; from += 1000) {
    const names = Array.from({ length: Math.min(1000, keys - from) }, (_, index) => `hostile/named:${from + index}`)
    await postRequests(
      url,
      names.map((name) => claiming(claimOf(name, { wait: false }))),
      operator,
    )
  }
}

test.each(['/v1/keys?prefix=hostile/&limit=1', '/v1/locks/hostile/1', '/v1/locks?name=nothing', '/v1/cycles'])(
  '%s: a token has the store read once or twice in a turn of the event loop, however many calls it sends',
  async (path) => {
    const { driver, mostInATurn, reads } = turnsSeen()
    const all = [{ ...tokens[1], namespaces: '*' }] as readonly TokenOptions[]
    const { url } = await startServer({ driver, tokens: all, routes: dashboard() })
    await fill(url, 3000)
    // In one piece, so that the server reads all of them in one turn.
    const call = `GET ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${operator}\r\n\r\n`
    const socket = connectSocket(Number(new URL(url).port), '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    let received = ''
    socket.on('data', (piece) => void (received += String(piece))).write(call.repeat(callsAtOnce))
    await eventually(() => received.split('HTTP/1.1 200').length > callsAtOnce, 'the answers')
    expect(reads()).toBeGreaterThanOrEqual(callsAtOnce)
    expect(mostInATurn()).toBeLessThanOrEqual(2)
  },
)

test('a watch reads the store a page in a turn', async () => {
  const { driver, mostInATurn, reads } = turnsSeen()
  const { url } = await startServer({ driver, tokens, routes: dashboard() })
  await fill(url, 5000)
  const watching = new AbortController()
  onTestFinished(() => watching.abort())
  const headers = { authorization: `Bearer ${hostile}` }
  await fetch(`${url}/v1/changes`, { headers, signal: watching.signal })
  await eventually(() => reads() >= 5, 'a whole snapshot')
  expect(mostInATurn()).toBe(1)
})

test.each(['/v1/locks?limit=1000', '/v1/locks?name=nothing', '/v1/cycles', '/v1/keys?prefix=hostile/&limit=1000'])(
  '%s: a long listing counts as many requests against the rate of its token',
  async (path) => {
    const rateLimits = { perToken: { perSecond: 0.001, burst: 20 } }
    const { url } = await startServer({ tokens, rateLimits, routes: dashboard() })
    await fill(url, 1000)
    expect((await get(`${url}${path}`, hostile)).status).toBe(200)
    expect((await get(`${url}${path}`, hostile)).status).toBe(429)
  },
)

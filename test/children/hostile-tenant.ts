/**
 * A tenant that does what harms most, until it is killed. It comes from 127.0.0.2, so that its address is not that of others.
 * Arguments: the attack, the server's URL, the tenant's token. Prints `attacking` when it has begun, and then what it has done, once a second.
 */
import { randomUUID } from 'node:crypto'
import { connect as connectSocket, type Socket } from 'node:net'
import { constants, setPriority } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import type { Claim, Request } from '../../src/core/contract/driver.ts'
import { requestBounds } from '../../src/core/contract/bounds.ts'
import { fenceFloor } from '../../src/core/rule/fence.ts'
import { claimOf, claiming } from '../support/claims.ts'
import type { Attack } from '../support/abused-server.ts'

// In life it computes on a machine of its own: here it must not take the processors from those whose calls are timed.
setPriority(constants.priority.PRIORITY_LOW)

const [attack = '', url = '', token = ''] = process.argv.slice(2)
const port = Number(new URL(url).port)
const done: Record<string, number> = {}
const count = (name: string): void => void (done[name] = (done[name] ?? 0) + 1)

function open(written: string, isRead = false): Socket {
  const socket = connectSocket({ port, host: '127.0.0.1', localAddress: '127.0.0.2' })
  socket.on('error', () => {})
  socket.once('connect', () => count('connections'))
  socket.write(written)
  if (isRead) socket.resume()
  return socket
}

/** Keeps so many connections, and makes a new one for each that is cut off. */
async function keep(connections: number, written: () => string, isRead = false): Promise<never> {
  let kept = 0
  for (;;) {
    for (let opened = 0; kept < connections && opened < 200; opened += 1) {
      kept += 1
      open(written(), isRead).once('close', () => (kept -= 1))
    }
    await pause(20)
  }
}

const signed = `host: localhost\r\nauthorization: Bearer ${token}\r\n`

function posted(requests: readonly Request[]): string {
  const body = JSON.stringify({ requests })
  const head = `POST /v1/requests HTTP/1.1\r\n${signed}content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`
  return head + body
}

/** Posts on several connections, each again as soon as it is answered. */
async function flood(connections: number, requests: () => readonly Request[]): Promise<never> {
  const again = (): void => {
    const socket = open(posted(requests()))
    socket.on('data', (piece) => {
      const [, status] = /^HTTP\/1\.1 (\d+)/.exec(piece.toString('latin1', 0, 20)) ?? []
      if (status === undefined) return
      count(status)
      socket.write(posted(requests()))
    })
    socket.once('close', () => setTimeout(again, 10))
  }
  for (let opened = 0; opened < connections; opened += 1) again()
  return forever()
}

const forever = (): Promise<never> => new Promise(() => setInterval(() => {}, 60_000))
const key = (name: string): string => `hostile/named:${name}`
const claims = (length: number, keyAt: (index: number) => string, wish: Partial<Claim> = {}): Request[] =>
  Array.from({ length }, (_, index) => claiming(claimOf(keyAt(index), wish)))
/** Many small parts: in memory they take many times the length of their JSON. */
const largest = { many: Array.from({ length: Math.floor(requestBounds.metadataBytesMax / 8) }, () => []) }

const attacks: Record<Attack, () => Promise<never>> = {
  /** Without a token: calls one after the other, whose answers are never read. */
  'never reading': () => keep(60, () => 'GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(1500)),

  'slow bodies': () =>
    keep(
      1500,
      () => `POST /v1/requests HTTP/1.1\r\n${signed}content-type: application/json\r\ncontent-length: 9\r\n\r\n{`,
    ),

  'bodies without end': () => {
    const head = `POST /v1/requests HTTP/1.1\r\n${signed}content-type: application/json\r\ncontent-length: 1000000\r\n\r\n`
    return keep(400, () => head + ' '.repeat(999_000))
  },

  'unread lists': async () => {
    const socket = open(
      posted(claims(60, (index) => key(`${index}`), { runner: { ...claimOf('').runner, metadata: largest } })),
    )
    await new Promise((resolve) => socket.once('data', resolve))
    return keep(200, () => `GET /v1/keys?prefix=hostile/ HTTP/1.1\r\n${signed}\r\n`.repeat(8))
  },

  flood: () => flood(40, () => claims(1, () => key(randomUUID()), { ttlMs: 1000 })),

  'large batches': () => flood(10, () => claims(1000, () => key(randomUUID()), { ttlMs: 1000 })),

  'largest claims': () =>
    flood(10, () => claims(50, () => key(randomUUID()), { runner: { ...claimOf('').runner, metadata: largest } })),

  waiters: () => flood(10, () => claims(1000, () => key('crowd'))),

  floors: () =>
    flood(10, () => {
      const claim = claimOf(key(randomUUID()), { mode: 'shared', ttlMs: 1000 })
      const floor = fenceFloor(Date.now() + 4900)
      return [claiming(claim), { op: 'renew', key: claim.key, id: claim.id, ttlMs: 1000, fenceFloor: floor }]
    }),

  'tiny ttls': () =>
    flood(10, () => {
      const claim = claimOf(key(randomUUID()), { ttlMs: 1 })
      return [claiming(claim), { op: 'renew', key: claim.key, id: claim.id, ttlMs: 1 }]
    }),

  streams: () =>
    keep(
      6000,
      () => `GET /v1/notifications HTTP/1.1\r\n${signed}leasehold-session: ${randomUUID().replaceAll('-', '')}\r\n\r\n`,
    ),

  reconnects: async () => {
    for (;;) {
      const sockets = Array.from({ length: 50 }, () => open('GET /livez HTTP/1.1\r\n'))
      await Promise.race([
        Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve)))),
        pause(500),
      ])
      for (const socket of sockets) socket.destroy()
      await pause(1)
    }
  },
}

const chosen = attacks[attack as Attack]
setTimeout(() => console.log('attacking'), 500)
setInterval(() => console.log(JSON.stringify(done)), 1000)
await chosen()

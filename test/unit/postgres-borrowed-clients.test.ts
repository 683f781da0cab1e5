import { createServer, type Server } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { Pool } from 'pg'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { closeServer, listen } from '../support/loopback.ts'

let server: Server | undefined
let uncaught: unknown[] = []
const note = (error: unknown): void => void uncaught.push(error)

afterEach(async () => {
  process.removeListener('uncaughtException', note)
  uncaught = []
  if (server !== undefined) await closeServer(server)
  server = undefined
})

/** A message of PostgreSQL's protocol. */
function message(type: string, ...parts: readonly (string | Buffer)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)))
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  return Buffer.concat([Buffer.from(type), length, body])
}

const authenticated = message('R', Buffer.from([0, 0, 0, 0]))
const ready = message('Z', 'I')
const fatal = message(
  'E',
  'SFATAL\0',
  'VFATAL\0',
  'C57P01\0',
  'Mterminating connection due to administrator command\0',
  '\0',
)

test('a server that ends a connection in the reply that makes it harms no process', async () => {
  process.on('uncaughtException', note)
  server = createServer((socket) => {
    socket.on('error', () => {})
    // One chunk: the client reads both before whoever borrows it can run.
    socket.once('data', () => void socket.end(Buffer.concat([authenticated, ready, fatal])))
  })
  const port = await listen(server)
  const pools = [`postgres://user:secret@127.0.0.1:${port}/db`, new Pool({ host: '127.0.0.1', port, user: 'user' })]
  for (const source of pools) {
    const driver = postgres(source)
    await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await driver.close()
    if (typeof source !== 'string') await source.end()
  }
  expect(uncaught).toEqual([])
})

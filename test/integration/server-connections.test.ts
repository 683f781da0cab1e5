/** Connections that are kept: streams, and callers who do not read, say nothing or never close. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect as connectSocket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { events, text, type EventFeed, type Route } from '../../src/server/index.ts'
import { get } from '../support/called.ts'
import { eventually } from '../support/eventually.ts'
import { makePrivateCa } from '../support/private-ca.ts'
import { startServer } from '../support/started-server.ts'
import { folderForTest } from '../support/test-folder.ts'

function streamRoute(place: string, attach: EventFeed['attach']): Route {
  return { method: 'GET', path: place, right: 'read', summary: 'A test.', handle: () => events({ attach }) }
}

async function streamsUnderWay(url: string): Promise<string | undefined> {
  return /streams_under_way (\d+)/.exec((await get(`${url}/metrics`)).text)?.[1]
}

describe('a stream of a route of your own', () => {
  test('that says too much as it begins is cut off, and its source is let go', async () => {
    let disposed = 0
    const flood = streamRoute('/flood', (send) => {
      for (let count = 0; count < 100; count += 1) send('flood', 'x'.repeat(100_000))
      return { [Symbol.dispose]: () => void (disposed += 1) }
    })
    const complaints: string[] = []
    const logger = { debug: () => {}, info: () => {}, warn: (message: string) => void complaints.push(message) }
    const { url } = await startServer({ routes: [flood], logger })
    await expect(get(`${url}/flood`)).rejects.toThrow()
    expect({ disposed, complaints, underWay: await streamsUnderWay(url) }).toEqual({
      disposed: 1,
      complaints: ['connections were cut off: 1 because they did not read'],
      underWay: '0',
    })
  })

  test('that fails as it begins is told to the log, and takes nobody with it', async () => {
    const broken = streamRoute('/broken', () => {
      throw new Error('the source is broken')
    })
    const complaints: string[] = []
    const logger = { debug: () => {}, info: () => {}, warn: (message: string) => void complaints.push(message) }
    const { url } = await startServer({ routes: [broken], logger })
    await expect(get(`${url}/broken`)).rejects.toThrow()
    await eventually(async () => (await streamsUnderWay(url)) === '0', 'the end of the stream')
    expect(complaints.join()).toContain('the source is broken')
  })
})

test('an answer that is not read is not kept', async () => {
  let gone = false
  const long: Route = {
    method: 'GET',
    path: '/long',
    right: 'read',
    summary: 'A test.',
    handle({ signal }) {
      signal.addEventListener('abort', () => (gone = true))
      return text('x'.repeat(50_000_000))
    },
  }
  const { url } = await startServer({ routes: [long], limits: { readWithinMs: 50 } })
  const socket = connectSocket(Number(new URL(url).port), '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {})
  socket.write('GET /long HTTP/1.1\r\nhost: localhost\r\n\r\n')
  await once(socket, 'readable')
  await eventually(() => gone, 'the end of the connection')
})

test('a TLS handshake that does not end is cut off, as a head that does not', async () => {
  const folder = folderForTest('tls')
  const { certificateFile, keyFile } = makePrivateCa(folder)
  const tls = { cert: readFileSync(certificateFile), key: readFileSync(keyFile) }
  const { url } = await startServer({ tls, limits: { headersWithinMs: 50 } })
  for (const beginning of ['', '\x16\x03\x01']) {
    const socket = connectSocket(Number(new URL(url).port), '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    socket.write(beginning)
    socket.resume()
    await once(socket, 'close')
  }
})

test.each([
  ['is no HTTP', 'HELLO\r\n\r\n'],
  ['is too long', `GET / HTTP/1.1\r\nlong: ${'x'.repeat(20_000)}`],
  ['is too slow', 'GET / HT'],
])('a connection whose head %s is closed, also if its caller does not close it', async (_, head) => {
  const { url } = await startServer({ limits: { connectionsMax: 1, headersWithinMs: 50 } })
  const socket = connectSocket({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true })
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {})
  socket.write(head)
  socket.resume()
  await once(socket, 'end')
  const another = async (): Promise<boolean> => (await get(`${url}/healthz`)).status === 200
  await eventually(() => another().catch(() => false), 'room for another')
})

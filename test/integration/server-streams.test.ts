/** Answers that go on, and answers that nobody reads. */
import { once } from 'node:events'
import { connect as connectSocket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { events, text, type EventSource, type Route } from '../../src/server/index.ts'
import { get } from '../support/called.ts'
import { eventually } from '../support/eventually.ts'
import { startServer } from '../support/started-server.ts'

function streamRoute(path: string, attach: EventSource['attach']): Route {
  return { method: 'GET', path, right: 'look', summary: 'A test.', handle: () => events({ attach }) }
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
      complaints: [],
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
    right: 'look',
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

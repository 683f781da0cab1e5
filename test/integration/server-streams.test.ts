/** Answers that go on, and answers that nobody reads. */
import { expect, describe, test } from 'vitest'
import { events, type EventSource, type Route } from '../../src/server/index.ts'
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

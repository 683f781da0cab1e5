import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { http } from '../../src/drivers/http/driver.ts'
import { eventually } from '../support/eventually.ts'
import { startServer } from '../support/started-server.ts'

const url = 'http://127.0.0.1:1'

describe('over fetch', () => {
  test('a certificate of your own is refused: the runtime decides whom it trusts', () => {
    expect(() => http({ url, ca: 'PEM', fetch })).toThrow(expect.objectContaining({ code: 'UNSUPPORTED' }))
  })

  test('an answer without an end is let go of as soon as it is too long', async () => {
    let isCancelled = false
    const piece = new Uint8Array(64 * 1_048_576)
    const endless = new ReadableStream({
      pull: (controller) => controller.enqueue(piece),
      cancel: () => void (isCancelled = true),
    })
    const driver = http({ url, fetch: async () => new Response(endless) })
    await expect(driver.open()).rejects.toMatchObject({ message: expect.stringMatching(/more than \d+ bytes/) })
    expect(isCancelled).toBe(true)
    await driver.close()
  })

  test('a fetch that never answers, and heeds no signal, is waited for no longer than was told', async () => {
    const driver = http({ url, answerWithinMs: 50, fetch: () => new Promise(() => {}) })
    await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', message: expect.stringMatching(/50 ms/) })
    await driver.close()
  })

  test('a body that never ends, and heeds no signal, is waited for no longer than was told', async () => {
    const driver = http({ url, answerWithinMs: 50, fetch: async () => new Response(new ReadableStream()) })
    await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', message: expect.stringMatching(/50 ms/) })
    await driver.close()
  })

  test('whatever a fetch throws becomes an error with a code', async () => {
    for (const thrown of [undefined, null, 'text', new TypeError('Failed to fetch')]) {
      const driver = http({ url, fetch: () => Promise.reject(thrown) })
      await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
      await driver.close()
    }
  })

  test('redirects are not followed, also where a browser does not say where they lead', async () => {
    const seen: string[] = []
    const redirect = { type: 'opaqueredirect', status: 0, headers: new Headers(), body: null } as Response
    const driver = http({
      url,
      fetch: async (_, init) => {
        seen.push(init.redirect)
        return redirect
      },
    })
    await expect(driver.open()).rejects.toMatchObject({ message: expect.stringMatching(/redirects elsewhere/) })
    expect(seen).toEqual(['manual'])
    await driver.close()
  })

  test('close aborts what is under way, and a stream that is told of nothing any more', async () => {
    const server = await startServer()
    const signals: AbortSignal[] = []
    const driver = http({
      url: server.url,
      fetch: (address, init) => {
        signals.push(init.signal)
        return fetch(address, init)
      },
    })
    onTestFinished(() => driver.close())
    await driver.open()
    expect(signals.filter(({ aborted }) => !aborted).length).toBeGreaterThan(0)
    await driver.close()
    expect(signals.slice(1).every(({ aborted }) => aborted)).toBe(true)
    await pause(0)
    await expect(driver.send([])).rejects.toMatchObject({ code: 'CLOSED' })
  })

  test('close lets go of a stream that heeds no signal', async () => {
    const server = await startServer()
    const driver = http({ url: server.url, fetch: (address, init) => fetch(address, { ...init, signal: null }) })
    onTestFinished(() => driver.close())
    await driver.open()
    const streams = async (): Promise<string> => (await fetch(`${server.url}/metrics`)).text()
    expect(await streams()).toMatch(/^leasehold_server_streams_under_way 1$/m)
    await driver.close()
    const closedAt = performance.now()
    await eventually(
      async () => /^leasehold_server_streams_under_way 0$/m.test(await streams()),
      'the end of the stream',
    )
    // The server says something every 15 s: that must not be what ends it.
    expect(performance.now() - closedAt).toBeLessThan(10_000)
  })

  test('an answer that comes after it was given up is let go of', async () => {
    let isCancelled = false
    const body = new ReadableStream({ cancel: () => void (isCancelled = true) })
    const timedOut = async (): Promise<Response> => pause(100, new Response(body))
    const driver = http({ url, answerWithinMs: 50, fetch: timedOut })
    await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', message: expect.stringMatching(/50 ms/) })
    await eventually(() => isCancelled, 'the end of the answer')
    await driver.close()
  })

  test('a fetch that closes the driver, and never answers, is not waited for', async () => {
    const driver = http({
      url,
      fetch: () => {
        void driver.close()
        return new Promise(() => {})
      },
    })
    await expect(driver.open()).rejects.toMatchObject({ code: 'CLOSED' })
  })

  test('a stream that does not open is opened again', async () => {
    const server = await startServer()
    let streams = 0
    const driver = http({
      url: server.url,
      fetch: (address, init) => {
        if (!address.endsWith('/v1/notifications')) return fetch(address, init)
        streams += 1
        return streams === 1 ? Promise.reject(new TypeError('Failed to fetch')) : fetch(address, init)
      },
    })
    onTestFinished(() => driver.close())
    await driver.open()
    await eventually(() => streams === 2, 'the second stream')
  })
})

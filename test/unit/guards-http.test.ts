import { createServer, type RequestListener, type Server } from 'node:http'
import { afterEach, describe, expect, test } from 'vitest'
import { fencedFetch, httpGuard, memoryGuard } from '../../src/guards/index.ts'
import { listen, closeServer } from '../support/loopback.ts'
import { deferred } from '../support/deferred.ts'

const superseded = expect.objectContaining({ code: 'LOST', reason: 'superseded' }) as Error
const servers: Server[] = []

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => closeServer(server)))
})

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  servers.push(server)
  const port = await listen(server)
  return `http://127.0.0.1:${port}`
}

/** A server whose every path may be written, and what was written. */
async function guarded(options?: Parameters<typeof httpGuard>[0]) {
  const written: string[] = []
  const guard = httpGuard(options)
  const url = await serve((request, response) =>
    guard(request, response, () => {
      written.push(`${request.method} ${request.url}`)
      response.end('done')
    }),
  )
  return { url, written }
}

describe('an HTTP guard', () => {
  test('lets the same holder write many times and answers 412 to the one it replaced', async () => {
    const { url, written } = await guarded()
    for (const fence of [5, 5, 7]) {
      expect((await fencedFetch({ fence }, `${url}/a`, { method: 'PUT' })).status).toBe(200)
    }
    const refused = await fetch(`${url}/a`, { method: 'PUT', headers: { 'If-Fence': '6' } })
    expect(refused.status).toBe(412)
    expect(await refused.json()).toMatchObject({ code: 'LOST', reason: 'superseded' })
    expect((await fencedFetch({ fence: 1 }, `${url}/b`, { method: 'POST' })).status).toBe(200)
    expect(written).toEqual(['PUT /a', 'PUT /a', 'PUT /a', 'POST /b'])
  })

  test('answers 428 to a write without a fence and 400 to one that is no fence', async () => {
    const { url, written } = await guarded()
    const status = async (headers: Record<string, string>) => (await fetch(url, { method: 'PUT', headers })).status
    expect(await status({})).toBe(428)
    for (const fence of ['', '0', '-1', '1.5', '7, 8', '9007199254740993', 'seven']) {
      expect(await status({ 'If-Fence': fence })).toBe(400)
    }
    expect(written).toEqual([])
  })

  test('lets reads through, and unfenced writes if told so', async () => {
    const { url, written } = await guarded({ optional: true })
    await fetch(`${url}/a`)
    await fetch(`${url}/a`, { method: 'DELETE' })
    expect(written).toEqual(['GET /a', 'DELETE /a'])
  })

  test('lets a read with a fence raise it, and refuses one that was replaced', async () => {
    const { url } = await guarded()
    await fencedFetch({ fence: 7 }, `${url}/a`)
    await expect(fencedFetch({ fence: 6 }, `${url}/a`, { method: 'PUT' })).rejects.toThrow(superseded)
    await expect(fencedFetch({ fence: 6 }, `${url}/a`)).rejects.toThrow(superseded)
    expect((await fetch(`${url}/a`, { headers: { 'If-Fence': 'seven' } })).status).toBe(400)
    expect((await fetch(`${url}/a`)).status).toBe(200)
  })

  test('keeps one fence for what the server says is one thing', async () => {
    const { url } = await guarded()
    await fencedFetch({ fence: 9 }, `${url}/a?draft=1`, { method: 'PUT' })
    await expect(fencedFetch({ fence: 8 }, `${url}/a?draft=2`, { method: 'PUT' })).rejects.toThrow(superseded)
    const shared = await guarded({ resource: () => 'all', guard: memoryGuard() })
    await fencedFetch({ fence: 9 }, `${shared.url}/a`, { method: 'PUT' })
    await expect(fencedFetch({ fence: 8 }, `${shared.url}/b`, { method: 'PUT' })).rejects.toThrow(superseded)
  })

  test('does not let a newer write overtake one that is under way, even if its client has gone', async () => {
    const order: string[] = []
    const guard = httpGuard()
    const slow = deferred()
    const begun = deferred()
    const url = await serve((request, response) =>
      guard(request, response, async () => {
        const fence = String(request.headers['if-fence'])
        order.push(`${fence} begins`)
        begun.resolve()
        if (fence === '1') await slow.promise
        order.push(`${fence} ends`)
        response.end()
      }),
    )
    const client = new AbortController()
    const old = fencedFetch({ fence: 1, signal: client.signal }, url, { method: 'PUT' })
    await begun.promise
    client.abort()
    await expect(old).rejects.toThrow('aborted')
    const later = fencedFetch({ fence: 2 }, url, { method: 'PUT' })
    const elsewhere = await fencedFetch({ fence: 3 }, `${url}/elsewhere`, { method: 'PUT' })
    expect(elsewhere.status).toBe(200)
    slow.resolve()
    expect((await later).status).toBe(200)
    expect(order).toEqual(['1 begins', '3 begins', '3 ends', '1 ends', '2 begins', '2 ends'])
  })
})

describe('fencedFetch', () => {
  test('leaves a 412 of another kind to its caller', async () => {
    const url = await serve((_request, response) => response.writeHead(412).end('If-Match'))
    expect((await fencedFetch({ fence: 1 }, url, { method: 'PUT' })).status).toBe(412)
  })

  test('keeps the headers it was given, and gives up when the lease is lost', async () => {
    const seen: unknown[] = []
    const url = await serve((request, response) => {
      seen.push(request.headers['if-fence'], request.headers['x-mine'])
      if (request.url === '/') response.end()
    })
    await fencedFetch({ fence: 12 }, url, { headers: { 'X-Mine': 'yes' } })
    expect(seen).toEqual(['12', 'yes'])
    const lease = new AbortController()
    const hanging = fencedFetch({ fence: 12, signal: lease.signal }, `${url}/hang`)
    lease.abort(new Error('the lease is lost'))
    await expect(hanging).rejects.toThrow('the lease is lost')
  })
})

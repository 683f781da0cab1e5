import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver, Notification } from '../../src/core/contract/driver.ts'
import { http, type HttpOptions } from '../../src/drivers/http/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { createLocks } from '../../src/index.ts'
import type { TokenOptions } from '../../src/server/index.ts'
import { dashboard } from '../../src/server/operators.ts'
import { get } from '../support/called.ts'
import { claim, claimOf, release, renew } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { Nginx } from '../support/nginx.ts'
import { makePrivateCa } from '../support/private-ca.ts'
import { startServer } from '../support/started-server.ts'
import { overFetch } from '../support/transports.ts'
import { folderForTest } from '../support/test-folder.ts'

const token = 'secret-of-all-0123456789'
const tokens: readonly TokenOptions[] = [{ name: 'all', token, namespaces: '*', rights: ['lock', 'read', 'evict'] }]
const key = 'default/named:orders/42'

async function nginx(servers: (port: number) => string): Promise<Nginx> {
  const proxy = await Nginx.start(servers)
  onTestFinished(() => proxy.stop())
  return proxy
}

async function open(options: HttpOptions): Promise<LockDriver> {
  const driver = http({ token, ...options })
  onTestFinished(() => driver.close())
  await driver.open()
  return driver
}

/** The configuration that docs/server.md shows, for a port, a server and a certificate of a test. */
function documented(port: number, serverPort: number, folder: string): string {
  const page = readFileSync('docs/server.md', 'utf8')
  const [, block = ''] = /```nginx\n(.*?)```/s.exec(page) ?? []
  const { certificateFile, keyFile } = makePrivateCa(folder)
  const own = [
    ['127.0.0.1:7411', `127.0.0.1:${serverPort}`],
    ['listen 443', `listen 127.0.0.1:${port}`],
    ['locks.example', 'localhost'],
    ['/etc/ssl/locks.crt', certificateFile],
    ['/etc/ssl/private/locks.key', keyFile],
  ] as const
  for (const [shown] of own) expect(block).toContain(shown)
  return own.reduce((text, [shown, instead]) => text.replaceAll(shown, instead), block)
}

/** Ways through nginx to a server of a test's own. */
const ways: Record<string, () => Promise<HttpOptions>> = {
  async 'that was told where the server is, and nothing more'() {
    const { url } = await startServer({ tokens, routes: dashboard() })
    const { port } = await nginx((own) => `server { listen 127.0.0.1:${own}; location / { proxy_pass ${url}; } }`)
    return { url: `http://127.0.0.1:${port}` }
  },
  async 'that has the server under a path'() {
    const { url } = await startServer({ tokens, routes: dashboard() })
    const { port } = await nginx(
      (own) => `server { listen 127.0.0.1:${own}; location /locks/ { proxy_pass ${url}/; } }`,
    )
    return { url: `http://127.0.0.1:${port}/locks` }
  },
  async 'that is configured as docs/server.md shows'() {
    const folder = folderForTest('tls')
    const { url } = await startServer({ tokens, routes: dashboard() })
    const { port } = await nginx((own) => documented(own, Number(new URL(url).port), folder))
    return { url: `https://localhost:${port}`, ca: readFileSync(path.join(folder, 'ca.crt')) }
  },
}

describe.each(Object.entries(ways))('an nginx %s', (_, way) => {
  test('passes on calls and news', async () => {
    const options = await way()
    const [near, far] = [await open(options), await open(options)]
    const notification: [string, Notification][] = []
    far.listen?.((_key, id, received) => void notification.push([id, received]))
    const [first, second] = [claimOf(key), claimOf(key)]
    expect(await claim(near, first)).toMatchObject({ state: 'held' })
    expect(await claim(far, second)).toMatchObject({ state: 'waiting' })
    expect(await renew(near, first)).toMatchObject({ state: 'held' })
    expect((await near.list({ prefix: 'default/' })).keys).toMatchObject([{ key }])
    await release(near, first)
    await eventually(() => notification.length > 0, 'notifications')
    expect(notification).toMatchObject([[second.id, { state: 'held' }]])
  })

  test('lets as much through as the server takes at once', async () => {
    const options = await way()
    const driver = await open(options)
    const base = claimOf(key)
    const runner = { ...base.runner, metadata: { much: 'x'.repeat(9000) } }
    const claims = Array.from({ length: 300 }, (_each, index) => claimOf(`default/named:${index}`, { runner }))
    const statuses = await driver.send(claims.map((one) => ({ op: 'claim', claim: one })))
    expect(new Set(statuses.map(({ state }) => state))).toEqual(new Set(['held']))
  })
})

test('an nginx passes on calls and news of a client that uses fetch', async () => {
  const { url } = await startServer()
  const { port } = await nginx((own) => `server { listen 127.0.0.1:${own}; location / { proxy_pass ${url}; } }`)
  const [near, far] = [1, 2].map(() => overFetch.http(`http://127.0.0.1:${port}`)) as [LockDriver, LockDriver]
  onTestFinished(async () => void (await Promise.all([near.close(), far.close()])))
  await Promise.all([near.open(), far.open()])
  const notification: [string, Notification][] = []
  far.listen?.((_key, id, received) => void notification.push([id, received]))
  const [first, second] = [claimOf(key), claimOf(key)]
  expect(await claim(near, first)).toMatchObject({ state: 'held' })
  expect(await claim(far, second)).toMatchObject({ state: 'waiting' })
  await release(near, first)
  await eventually(() => notification.length > 0, 'notifications')
  expect(notification).toMatchObject([[second.id, { state: 'held' }]])
})

test('a server that is gone for a while behind nginx costs its clients nothing that they hold', async () => {
  const port = await freePort()
  const driver = memory()
  const first = await startServer({ driver, port })
  const proxy = await nginx(
    (own) => `server { listen 127.0.0.1:${own}; location / { proxy_pass http://127.0.0.1:${port}; } }`,
  )
  const locks = await createLocks({ driver: http({ url: `http://127.0.0.1:${proxy.port}` }) })
  onTestFinished(() => locks.close())
  const lease = await locks.acquire('orders/42', { heartbeat: 'manual' })
  await first.close()
  // A 502 of nginx, in HTML: whether the server saw the call is not known.
  await expect(lease.renew()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  expect(lease.held).toBe(true)
})

test('a proxy that gathers the news costs time, and no lock', async () => {
  const { url } = await startServer()
  const { port } = await nginx(
    (own) =>
      `server { listen 127.0.0.1:${own}; location / { proxy_pass ${url}; proxy_ignore_headers X-Accel-Buffering; } }`,
  )
  const [near, far] = await Promise.all(
    [url, `http://127.0.0.1:${port}`].map((each) => createLocks({ driver: http(each) })),
  )
  onTestFinished(async () => void (await Promise.all([near?.close(), far?.close()])))
  const lease = await near?.acquire('orders/42')
  const waiting = far?.acquire('orders/42', { ttl: '3s' })
  await eventually(async () => (await near?.inspect('orders/42'))?.waiters.length === 1, 'the waiter')
  await lease?.release()
  expect((await waiting)?.fence).toBeGreaterThan(lease?.fence ?? Infinity)
})

test('a server without tokens refuses those who come through nginx by its public name', async () => {
  const { url } = await startServer()
  const { port } = await nginx(
    (own) =>
      `server { listen 127.0.0.1:${own}; location / { proxy_pass ${url}; proxy_set_header Host locks.example; } }`,
  )
  expect(await get(`http://127.0.0.1:${port}/v1/store`)).toMatchObject({ status: 403 })
})

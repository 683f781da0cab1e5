import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve as serveHono } from '@hono/node-server'
import express from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { LockPageDocument, SeriesDocument } from '../../src/dashboard/documents.ts'
import { EventStream } from '../../src/dashboard/page/event-stream.js'
import { memory } from '../../src/drivers/memory/driver.ts'
import { createLocks } from '../../src/index.ts'
import { mountDashboard, type DashboardViewer, type MountDashboardOptions } from '../../src/server/operators.ts'
import { Chromium } from '../support/chromium.ts'
import { eventually } from '../support/eventually.ts'

// The dashboard in real frameworks, behind a sign-in of their own: here a cookie.

let browser: Chromium
beforeAll(async () => {
  browser = await Chromium.start()
}, 600_000)
afterAll(() => browser?.stop())

const viewers: Readonly<Record<string, DashboardViewer>> = {
  ann: { name: 'ann', rights: ['read', 'evict'] },
  ben: { name: 'ben', namespaces: ['public'] },
}
const signedIn = (cookie: string | undefined): string | undefined => /user=(\w+)/.exec(cookie ?? '')?.[1]

interface Framework {
  readonly name: string
  /** Starts it with a board at /admin/locks. Gives its address, and what closes it. */
  start(this: void, options: MountDashboardOptions): Promise<{ url: string; close(): Promise<unknown> }>
}

const frameworks: readonly Framework[] = [
  {
    name: 'Express',
    async start(options) {
      const viewer = (request: object) => viewers[signedIn((request as express.Request).headers.cookie) ?? '']
      const board = await mountDashboard({ ...options, viewer })
      const app = express()
      app.use(express.json())
      app.use((request, response, next) => {
        if (signedIn(request.headers.cookie) === undefined) response.status(401).end('sign in')
        else next()
      })
      app.use('/admin/locks', board.node)
      app.get('/admin/locks/of-mine', (_request, response) => void response.send('mine'))
      const server = createServer(app)
      await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
      const close = async () => {
        await board.close()
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      }
      return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close }
    },
  },
  {
    name: 'Fastify',
    async start(options) {
      const viewer = (request: object) =>
        viewers[signedIn((request as { headers: { cookie?: string } }).headers.cookie) ?? '']
      const board = await mountDashboard({ ...options, viewer })
      const app = Fastify({ forceCloseConnections: true })
      app.addHook('onRequest', async (request, reply) => {
        if (signedIn(request.headers.cookie) === undefined) await reply.code(401).send('sign in')
      })
      await app.register(board.fastify, { prefix: '/admin/locks' })
      app.post('/echo', (request, reply) => void reply.send(request.body))
      const url = await app.listen({ port: 0, host: '127.0.0.1' })
      const close = async () => {
        await board.close()
        await app.close()
      }
      return { url, close }
    },
  },
  {
    name: 'Hono',
    async start(options) {
      const board = await mountDashboard(options)
      const app = new Hono<{ Variables: { user: string } }>()
      app.use(async (context, next) => {
        const user = signedIn(context.req.header('cookie'))
        if (user === undefined) return context.text('sign in', 401)
        context.set('user', user)
        return next()
      })
      app.all('/admin/locks/*', (context) => board.fetch(context.req.raw, viewers[context.get('user')]))
      const server = serveHono({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' })
      await eventually(() => server.address() !== null, 'the address')
      const close = async () => {
        await board.close()
        if ('closeAllConnections' in server) server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      }
      return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close }
    },
  },
]

let stores = 0

async function stage({ start }: Framework) {
  const name = `mounted-${(stores += 1)}`
  const locks = await createLocks({ driver: memory({ name }), namespace: 'public' })
  const lease = await locks.acquire('nightly')
  const secret = await createLocks({ driver: memory({ name }), namespace: 'secret' })
  await secret.acquire('hidden')
  const started = await start({ driver: memory({ name }) })
  const { url } = started
  let closing: Promise<unknown> | undefined
  const close = () => (closing ??= started.close())
  onTestFinished(async () => {
    await close()
    await locks.close()
    await secret.close()
  })
  const call = (path: string, user?: string, init: RequestInit = {}) => {
    const headers = new Headers(init.headers)
    if (user !== undefined) headers.set('cookie', `user=${user}`)
    return fetch(`${url}${path}`, { redirect: 'manual', ...init, headers })
  }
  const key = 'public/named:nightly'
  const evict = (user: string, headers: Record<string, string> = {}) =>
    call('/admin/locks/v1/evictions', user, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ key, fence: lease.fence, reason: 'stuck' }),
    })
  const lockOther = () => secret.acquire('hidden/2')
  return { url, call, lease, evict, key, lockOther, close }
}

describe.each(frameworks)('in $name', (framework) => {
  test('the board answers whoever has signed in there, and nobody else', async () => {
    const { call } = await stage(framework)
    for (const path of ['/admin/locks/', '/admin/locks/v1/overview', '/admin/locks/dashboard/main.js']) {
      expect((await call(path)).status).toBe(401)
      expect((await call(path, 'ann')).status).toBe(200)
    }
    // Somebody whom the sign-in knows, and `viewer` does not.
    if (framework.name !== 'Hono') expect((await call('/admin/locks/v1/overview', 'carl')).status).toBe(403)
    const page = await call('/admin/locks/', 'ann')
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
    const moved = await call('/admin/locks', 'ann', { headers: { accept: 'text/html' } })
    expect(moved.status).toBe(302)
    expect(new URL(moved.headers.get('location') ?? '', moved.url).pathname).toBe('/admin/locks/')
  })

  test('each viewer sees its namespaces, and evicts only with the right, from the page itself', async () => {
    const { call, evict, lease, key } = await stage(framework)
    const text = async (user: string) => (await call('/admin/locks/v1/overview', user)).text()
    expect(await text('ann')).toContain('hidden')
    expect(await text('ben')).toContain('nightly')
    expect(await text('ben')).not.toContain('hidden')
    expect((await evict('ben')).status).toBe(403)
    expect((await evict('ann', { 'sec-fetch-site': 'cross-site' })).status).toBe(403)
    expect((await evict('ann', { origin: 'https://evil.example' })).status).toBe(403)
    expect((await evict('ann', { 'content-type': 'text/plain' })).status).toBe(415)
    const lock = async () => (await (await call(`/admin/locks/v1/lock?key=${key}`, 'ann')).json()) as LockPageDocument
    expect((await lock()).lock.holders[0]?.fence).toBe(lease.fence)
    const answer = await evict('ann', { 'sec-fetch-site': 'same-origin' })
    expect(await answer.json()).toMatchObject({ result: 'evicted', by: 'ann' })
    expect((await lock()).lock.held).toBe(0)
  })

  test('a viewer of one namespace learns nothing of the others, whatever it asks', async () => {
    const { call, lease, lockOther } = await stage(framework)
    const base = '/admin/locks/v1'
    const stream = await call(`${base}/changes`, 'ben')
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader()
    onTestFinished(() => reader?.cancel())
    await lockOther()
    await lease.release()
    let events = ''
    await eventually(async () => {
      events += (await reader?.read())?.value ?? ''
      return events.includes('event: change')
    }, 'the change')
    for (const query of ['namespace=secret', `key=${encodeURIComponent('secret/named:hidden')}`]) {
      for (const route of ['overview', 'locks', 'series', 'cycles', 'lock']) {
        const answer = await call(`${base}/${route}?${query}`, 'ben')
        expect([route, query, answer.status >= 400]).toEqual([route, query, true])
      }
    }
    const texts = await Promise.all(
      ['overview', 'locks', 'cycles', 'audit'].map(async (route) => (await call(`${base}/${route}`, 'ben')).text()),
    )
    expect(events + texts.join('')).not.toMatch(/hidden|secret/)
    const granted = async (user: string) => {
      const { points } = (await (await call(`${base}/series`, user)).json()) as SeriesDocument
      return points.reduce((sum, point) => sum + point.granted, 0)
    }
    await eventually(async () => (await granted('ann')) > 0, 'the grant in the chart of all')
    expect(await granted('ben')).toBe(0)
  })

  test('paths that are not its own are not answered, and no path leads elsewhere', async () => {
    const { url, call } = await stage(framework)
    const paths = ['..%2fv1/overview', '/v1/overview', 'x/v1/overview', '%2e%2e/v1/overview', 'v1//overview']
    // Hono does not say where a handler is mounted: there a path is known by its end, behind the same sign-in.
    if (framework.name !== 'Hono')
      for (const path of paths) expect([path, (await call(`/admin/locks/${path}`, 'ann')).status]).toEqual([path, 404])
    for (const path of paths) expect((await call(`/admin/locks/${path}`)).status).toBe(401)
    for (const path of ['https:evil.example', 'javascript:alert(1)', '%5C%5Cevil.example', '//evil.example']) {
      const answer = await call(`/admin/locks/${path}`, 'ann', { headers: { accept: 'text/html' } })
      expect(new URL(answer.headers.get('location') ?? '', answer.url).origin).toBe(url)
    }
    for (const method of ['OPTIONS', 'PUT', 'DELETE'])
      expect((await call('/admin/locks/v1/overview', 'ann', { method })).status).toBeGreaterThanOrEqual(400)
    const head = await call('/admin/locks/v1/overview', 'ann', { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
  })

  test('one viewer cannot take the event streams of the others, also by HEAD', async () => {
    const { call } = await stage(framework)
    const changes = (user: string, init?: RequestInit) => call('/admin/locks/v1/changes', user, init)
    for (let count = 0; count < 30; count += 1) expect((await changes('ben', { method: 'HEAD' })).status).toBe(200)
    const streams: Response[] = []
    let status = 200
    while (status === 200 && streams.length < 300) {
      const answer = await changes('ben')
      streams.push(answer)
      ;({ status } = answer)
    }
    expect([status, streams.length]).toEqual([429, 21])
    const other = await changes('ann')
    expect(other.status).toBe(200)
    for (const { body } of [...streams, other]) await body?.cancel()
    await eventually(async () => {
      const answer = await changes('ben')
      await answer.body?.cancel()
      return answer.status === 200
    }, 'a stream again')
  })

  test('events arrive, and end with the board', async () => {
    const { call, lease, close } = await stage(framework)
    const answer = await call('/admin/locks/v1/changes', 'ann')
    const events: string[] = []
    const stream = new EventStream()
    const read = async () => {
      for await (const piece of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        for (const { event } of stream.push(piece)) events.push(event)
      }
    }
    const ended = read().catch(() => {})
    await eventually(() => events.includes('totals'), 'the totals')
    await lease.release()
    await eventually(() => events.includes('change'), 'the change')
    await close()
    await ended
  })

  test('the page works in a browser', async () => {
    const { url, lease } = await stage(framework)
    const { page, complaints } = await browser.open(url)
    await page.context().addCookies([{ name: 'user', value: 'ann', url }])
    await page.goto(`${url}/admin/locks`)
    await page.locator('#lock-rows').getByRole('link', { name: 'nightly' }).click()
    await page.getByRole('button', { name: /^Evict process/ }).click()
    await page.getByLabel('Reason').fill('stuck')
    await page.getByLabel('Type the lock').fill('nightly')
    await page.getByRole('dialog').getByRole('button', { name: 'Evict' }).click()
    await page.getByText(`fence ${lease.fence}: evicted.`).waitFor()
    // The page that was opened before there was a cookie.
    expect(complaints.filter((complaint) => !/401|404/.test(complaint))).toEqual([])
  })
})

test('what Express has at other paths below goes on being answered by Express', async () => {
  const [framework] = frameworks
  if (framework === undefined) throw new Error('There is no Express.')
  const { call } = await stage(framework)
  for (const accept of ['*/*', 'text/html']) {
    expect(await (await call('/admin/locks/of-mine', 'ann', { headers: { accept } })).text()).toBe('mine')
  }
})

test('a board without viewer lets everybody look and nobody evict, and needs a store', async () => {
  const board = await mountDashboard({ driver: memory() })
  onTestFinished(() => board.close())
  const ask = (path: string, init?: RequestInit) => board.fetch(new Request(`http://here/x/${path}`, init))
  expect(await (await ask('v1/principal')).json()).toMatchObject({ name: 'viewer', rights: ['read'] })
  const headers = { 'content-type': 'application/json' }
  expect((await ask('v1/evictions', { method: 'POST', headers, body: '{}' })).status).toBe(403)
  expect((await ask('nothing')).status).toBe(404)
  await expect(mountDashboard({})).rejects.toMatchObject({ code: 'INVALID' })
})

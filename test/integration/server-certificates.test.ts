import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { X509Certificate } from 'node:crypto'
import { connect } from 'node:tls'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { http } from '../../src/drivers/http/driver.ts'
import { createLocks } from '../../src/index.ts'
import { alternativeNames } from '../../src/server/http/tls.ts'
import type { TlsOptions, TokenOptions } from '../../src/server/index.ts'
import { makeClientAuthority, type CertificatePair, type ClientAuthority } from '../support/client-certificates.ts'
import { makePrivateCa } from '../support/private-ca.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

let folder = ''
let serverCa: Buffer
let own: { readonly cert: Buffer; readonly key: Buffer }
let authority: ClientAuthority
let worker: CertificatePair

beforeAll(() => {
  folder = makeFolder('certificates')
  const files = makePrivateCa(folder)
  serverCa = readFileSync(files.caFile)
  own = { cert: readFileSync(files.certificateFile), key: readFileSync(files.keyFile) }
  authority = makeClientAuthority(folder)
  worker = authority.sign('/CN=worker-7', 'DNS:worker.example,URI:spiffe://acme/worker')
})

afterAll(() => removeFolder(folder))

const tokens: readonly TokenOptions[] = [
  { name: 'worker', certificates: ['dns:worker.example'], namespaces: ['default'], rights: ['lock', 'read'] },
  { name: 'named', certificates: ['cn:named'], namespaces: ['default'], rights: ['lock'] },
  { name: 'secret', token: tokenOf('secret'), namespaces: ['default'], rights: ['lock', 'read'] },
]

const start = (tls: Partial<TlsOptions> = {}) =>
  startServer({ tokens, tls: { ...own, clientCa: authority.ca, ...tls } })

interface Called {
  readonly status: number | undefined
  readonly text: string
  readonly connection: string | undefined
}

function agentWith(pair: Partial<CertificatePair> = {}): Agent {
  const agent = new Agent({ ca: serverCa, keepAlive: true, maxSockets: 1, ...pair })
  onTestFinished(() => agent.destroy())
  return agent
}

/** Calls as curl would, with a certificate or without. */
function call(url: string, agent: Agent, token?: string): Promise<Called> {
  return new Promise((resolve, reject) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const calling = request(`${url}/v1/keys?prefix=default/`, { agent, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece))
      response.on('end', () => resolve({ status: response.statusCode, text, connection: response.headers.connection }))
    })
    calling.on('error', reject).end()
  })
}

describe('client certificates', () => {
  test('stand for the token that names one of their names', async () => {
    const { url } = await start()
    expect(await call(url, agentWith(worker))).toMatchObject({ status: 200 })
    const byCommonName = await call(url, agentWith(authority.sign('/CN=named')))
    expect(byCommonName).toMatchObject({
      status: 403,
      text: expect.stringContaining(`\\"named\\" lacks the right 'read'`),
    })
    const locks = await createLocks({ driver: http({ url, ca: serverCa, ...worker }) })
    onTestFinished(() => locks.close())
    await (await locks.acquire('orders/42')).release()
  })

  test('that no token names are let in by nobody', async () => {
    const { url } = await start()
    expect(await call(url, agentWith(authority.sign('/CN=other', 'DNS:other.example')))).toMatchObject({
      status: 401,
      text: expect.stringContaining('stands for no token'),
    })
  })

  test('with the names of two tokens stand for neither', async () => {
    const { url } = await start()
    expect(await call(url, agentWith(authority.sign('/CN=named', 'DNS:worker.example')))).toMatchObject({ status: 401 })
  })

  test('are needed to connect at all where they are required, and must be signed for clients by the authority', async () => {
    const { url } = await start()
    const stranger = makeClientAuthority(folder, 'strangers').sign('/CN=worker-7', 'DNS:worker.example')
    const forServers = authority.sign('/CN=worker-7', 'DNS:worker.example', 'serverAuth')
    await expect(call(url, agentWith())).rejects.toThrow()
    await expect(call(url, agentWith(), tokenOf('secret'))).rejects.toThrow()
    await expect(call(url, agentWith(stranger))).rejects.toThrow()
    await expect(call(url, agentWith(forServers))).rejects.toThrow()
  })

  test('may be left out where they are optional: then a token is asked for, and a foreign certificate is none', async () => {
    const { url } = await start({ clients: 'optional' })
    const stranger = makeClientAuthority(folder, 'others').sign('/CN=worker-7', 'DNS:worker.example')
    expect(await call(url, agentWith())).toMatchObject({ status: 401 })
    expect(await call(url, agentWith(), tokenOf('secret'))).toMatchObject({ status: 200 })
    expect(await call(url, agentWith(worker))).toMatchObject({ status: 200 })
    expect(await call(url, agentWith(stranger))).toMatchObject({ status: 401 })
  })

  test('do not help a token that is wrong', async () => {
    const { url } = await start()
    expect(await call(url, agentWith(worker), 'wrong-0123456789abcdef')).toMatchObject({ status: 401 })
  })

  test('need tokens that name them', async () => {
    const starting = startServer({ tls: { ...own, clientCa: authority.ca } })
    await expect(starting).rejects.toMatchObject({
      code: 'INVALID',
      message: expect.stringContaining('stand for tokens'),
    })
  })
})

/** The certificate that a new connection is shown. */
function shownCertificate(url: string): Promise<string> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false, ...worker }, () => {
      resolve(new X509Certificate(socket.getPeerCertificate().raw).fingerprint256)
      socket.destroy()
    })
    socket.on('error', reject)
  })
}

describe('certificates that are replaced', () => {
  test('are shown to the connections to come, while those there are stay', async () => {
    const server = await start()
    const agent = agentWith(worker)
    expect(await call(server.url, agent)).toMatchObject({ status: 200, connection: 'keep-alive' })
    const next = authority.sign('/CN=localhost', 'DNS:localhost,IP:127.0.0.1', 'serverAuth')
    server.replaceTls({ ...next, clientCa: authority.ca })
    // The agent trusts the old certificate alone: the call goes over the connection that is there.
    expect(await call(server.url, agent)).toMatchObject({ status: 200, connection: 'keep-alive' })
    expect(await shownCertificate(server.url)).toBe(new X509Certificate(next.cert).fingerprint256)
  })

  test('that make no sense change nothing', async () => {
    const server = await start()
    const before = await shownCertificate(server.url)
    for (const bad of [
      { ...own, key: worker.key, clientCa: authority.ca },
      { ...own, cert: 'nonsense', clientCa: authority.ca },
      { ...own, clientCa: 'nonsense' },
      { ...own },
    ]) {
      expect(() => server.replaceTls(bad)).toThrow(expect.objectContaining({ code: 'INVALID' }) as Error)
    }
    expect(await shownCertificate(server.url)).toBe(before)
    expect(await call(server.url, agentWith(worker))).toMatchObject({ status: 200 })
  })

  test('by another authority for clients leave each old connection one more answer', async () => {
    const server = await start()
    const agent = agentWith(worker)
    expect(await call(server.url, agent)).toMatchObject({ status: 200, connection: 'keep-alive' })
    const next = makeClientAuthority(folder, 'next')
    server.replaceTls({ ...own, clientCa: next.ca })
    expect(await call(server.url, agent)).toMatchObject({ status: 200, connection: 'close' })
    await expect(call(server.url, agent)).rejects.toThrow()
    const signed = next.sign('/CN=worker-8', 'DNS:worker.example')
    expect(await call(server.url, agentWith(signed))).toMatchObject({ status: 200, connection: 'keep-alive' })
  })
})

test.each<[string, readonly string[]]>([
  ['', []],
  [
    'DNS:a.example, URI:spiffe://x/y, email:a@b.example, IP Address:127.0.0.1',
    ['dns:a.example', 'uri:spiffe://x/y', 'email:a@b.example'],
  ],
  ['DNS:"a.example, DNS:evil.example"', ['dns:a.example, DNS:evil.example']],
  [String.raw`URI:"http://x/\u0000", DNS:b`, ['uri:http://x/\u0000', 'dns:b']],
  ['DNS:"a', []],
])('the alternative names of a certificate are read as Node writes them: %j', (text, names) => {
  expect(alternativeNames(text)).toEqual(names)
})

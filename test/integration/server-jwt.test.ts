import { createServer } from 'node:http'
import { connect } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT, type GenerateKeyPairResult, type JWTPayload } from 'jose'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Request } from '../../src/core/contract/driver.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { http } from '../../src/drivers/http/driver.ts'
import { createLocks } from '../../src/index.ts'
import type { JwtOptions } from '../../src/server/index.ts'
import { get, postRequests } from '../support/called.ts'
import { claimOf } from '../support/claims.ts'
import { deferred } from '../support/deferred.ts'
import { eventually } from '../support/eventually.ts'
import { listen } from '../support/loopback.ts'
import { startServer } from '../support/started-server.ts'
import { tokenOf } from '../support/tokens.ts'

const issuer = 'https://issuer.example'
const audience = 'leasehold'

let first: GenerateKeyPairResult
let second: GenerateKeyPairResult
let elliptic: GenerateKeyPairResult
let options: JwtOptions

beforeAll(async () => {
  first = await generateKeyPair('RS256', { extractable: true })
  second = await generateKeyPair('RS256', { extractable: true })
  elliptic = await generateKeyPair('ES256', { extractable: true })
  options = {
    issuer,
    audience,
    jwks: { keys: [await publicKey(first, 'first'), await publicKey(elliptic, 'elliptic')] },
    grants: [
      { when: { repository: 'acme/shop' }, namespaces: ['builds'], rights: ['lock', 'read'] },
      { when: { groups: ['ops', 'sre'] }, namespaces: '*', rights: ['read'] },
      { when: { tier: 'own' }, namespacesClaim: 'namespaces', rightsClaim: 'rights' },
    ],
  }
})

async function publicKey({ publicKey: key }: GenerateKeyPairResult, kid: string): Promise<object> {
  return { ...(await exportJWK(key)), kid }
}

interface Wish {
  readonly claims?: JWTPayload
  readonly issuer?: string
  readonly audience?: string
  readonly expires?: string | number | null
  readonly notBefore?: string
  readonly subject?: string | null
  readonly key?: GenerateKeyPairResult
  readonly header?: { readonly alg: string; readonly kid?: string }
}

function made(wish: Wish = {}): Promise<string> {
  const { header = { alg: 'RS256', kid: 'first' }, key = first, expires = '5m', subject = 'repo:acme/shop' } = wish
  let jwt = new SignJWT({ repository: 'acme/shop', ...wish.claims })
    .setProtectedHeader(header)
    .setIssuer(wish.issuer ?? issuer)
    .setAudience(wish.audience ?? audience)
    .setIssuedAt()
  if (expires !== null) jwt = jwt.setExpirationTime(expires)
  if (wish.notBefore !== undefined) jwt = jwt.setNotBefore(wish.notBefore)
  if (subject !== null) jwt = jwt.setSubject(subject)
  return jwt.sign(key.privateKey)
}

const claiming = (key: string): Request => ({ op: 'claim', claim: claimOf(key) })

test('the bearer of a good JWT may do what the grants for its claims say, under its own name', async () => {
  const { url } = await startServer({ jwt: options })
  const token = await made()
  const claimed = await postRequests(url, [claiming('builds/named:a')], token)
  expect(claimed.value).toMatchObject({ statuses: [{ state: 'held' }] })
  const listed = await get(`${url}/v1/keys?prefix=builds/`, token)
  expect(listed.value).toMatchObject({
    keys: [{ claims: [{ runner: { metadata: { via: 'jwt:repo:acme/shop' } } }] }],
  })
  expect(await postRequests(url, [claiming('other/named:a')], token)).toMatchObject({ status: 403 })
})

test('all grants that fit count together, also for a claim that is a list', async () => {
  const { url } = await startServer({ jwt: options })
  const token = await made({ claims: { groups: ['dev', 'sre'] } })
  expect(await get(`${url}/v1/keys`, token)).toMatchObject({ status: 200 })
  expect(await postRequests(url, [claiming('builds/named:a')], token)).toMatchObject({ status: 200 })
  expect(await postRequests(url, [claiming('other/named:a')], token)).toMatchObject({ status: 403 })
})

test('namespaces and rights may be claims of the JWT, where a star is no namespace and an unknown right is none', async () => {
  const { url } = await startServer({ jwt: options })
  const claims = { repository: 'x', tier: 'own', namespaces: ['mine', '*'], rights: 'lock everything' }
  const token = await made({ claims })
  expect(await postRequests(url, [claiming('mine/named:a')], token)).toMatchObject({ status: 200 })
  expect(await postRequests(url, [claiming('builds/named:a')], token)).toMatchObject({ status: 403 })
  expect(await get(`${url}/v1/keys?prefix=mine/`, token)).toMatchObject({ status: 403 })
  const nothing = await made({ claims: { ...claims, rights: 'everything' } })
  expect(await get(`${url}/v1/store`, nothing)).toMatchObject({ status: 401 })
})

test('other algorithms of the list are taken', async () => {
  const { url } = await startServer({ jwt: options })
  const token = await made({ key: elliptic, header: { alg: 'ES256', kid: 'elliptic' } })
  expect(await get(`${url}/v1/store`, token)).toMatchObject({ status: 200 })
  const strict = await startServer({ jwt: { ...options, algorithms: ['RS256'] } })
  expect(await get(`${strict.url}/v1/store`, token)).toMatchObject({
    status: 401,
    value: { error: { message: 'The JWT is not taken: its algorithm is not allowed.' } },
  })
})

describe('a JWT is refused', () => {
  test.each<[string, Wish, RegExp]>([
    ['that has expired', { expires: '-1m' }, /has expired/],
    ['that is not yet valid', { notBefore: '5m' }, /claim nbf does not fit/],
    ['of another issuer', { issuer: 'https://evil.example' }, /claim iss does not fit/],
    ['for another audience', { audience: 'other' }, /claim aud does not fit/],
    ['without an end', { expires: null }, /lacks the claim exp/],
    ['without a name', { subject: null }, /lacks the claim sub/],
    ['with a name that is not printable', { subject: 'a\u001b[2Jb' }, /no printable name/],
    ['that no grant is for', { claims: { repository: 'acme/other' } }, /no grant/],
    ['that names a key of nobody', { header: { alg: 'RS256', kid: 'nobody' } }, /none of the issuer’s keys/],
  ])('%s', async (_, wish, reason) => {
    const { url } = await startServer({ jwt: options })
    const refused = await get(`${url}/v1/store`, await made(wish))
    expect(refused).toMatchObject({ status: 401, value: { error: { message: expect.stringMatching(reason) } } })
  })

  test('with a signature of another key, or none', async () => {
    const { url } = await startServer({ jwt: options })
    const forged = await made({ key: second })
    expect(await get(`${url}/v1/store`, forged)).toMatchObject({
      status: 401,
      value: { error: { message: expect.stringContaining('signature is wrong') } },
    })
    const [header, , signature] = (await made()).split('.')
    const changed = Buffer.from(JSON.stringify({ sub: 'x', iss: issuer, aud: audience, exp: 9e9 })).toString(
      'base64url',
    )
    expect(await get(`${url}/v1/store`, `${header}.${changed}.${signature}`)).toMatchObject({ status: 401 })
    const unsecured = new UnsecuredJWT({ repository: 'acme/shop', sub: 'x', iss: issuer, aud: audience, exp: 9e9 })
    const none = unsecured.encode()
    expect(await get(`${url}/v1/store`, none)).toMatchObject({ status: 401 })
    expect(await get(`${url}/v1/store`, `${none}AAAA`)).toMatchObject({ status: 401 })
  })

  test('that was signed with a public key as if it were a shared secret', async () => {
    const { url } = await startServer({ jwt: options })
    const secret = new TextEncoder().encode(JSON.stringify(await exportJWK(first.publicKey)))
    const confused = await new SignJWT({ repository: 'acme/shop' })
      .setProtectedHeader({ alg: 'HS256', kid: 'first' })
      .setIssuer(issuer)
      .setAudience(audience)
      .setSubject('x')
      .setExpirationTime('5m')
      .sign(secret)
    expect(await get(`${url}/v1/store`, confused)).toMatchObject({ status: 401 })
  })

  test('once it has expired, though it was verified before; a clock may be off by the tolerance', async () => {
    const environment = systemEnvironment()
    let aheadMs = 0
    const { url } = await startServer({
      jwt: { ...options, clockToleranceMs: 10_000 },
      environment: { ...environment, wall: () => environment.wall() + aheadMs },
    })
    const token = await made({ expires: '1m' })
    expect(await get(`${url}/v1/store`, token)).toMatchObject({ status: 200 })
    aheadMs = 65_000
    expect(await get(`${url}/v1/store`, token)).toMatchObject({ status: 200 })
    aheadMs = 71_000
    expect(await get(`${url}/v1/store`, token)).toMatchObject({ status: 401 })
  })
})

/** An issuer that publishes keys, and counts how often it is asked. */
async function issuerWith(...keys: readonly object[]) {
  const state = { keys, asked: 0, status: 200 }
  const server = createServer((_, response) => {
    state.asked += 1
    response.writeHead(state.status, { 'content-type': 'application/json' }).end(JSON.stringify({ keys: state.keys }))
  })
  const port = await listen(server)
  onTestFinished(() => void server.close())
  return { state, url: `http://127.0.0.1:${port}/jwks.json` }
}

describe('keys at a URL', () => {
  test('that are slow to come: a caller who goes meanwhile, half of its body sent, takes no share of its token any more', async () => {
    const published = JSON.stringify({ keys: [await publicKey(first, 'first')] })
    const asked = deferred<() => void>()
    const keys = createServer((_, response) => asked.resolve(() => void response.end(published)))
    const port = await listen(keys)
    onTestFinished(() => void keys.close())
    const { url } = await startServer({
      jwt: { ...options, jwks: `http://127.0.0.1:${port}/jwks.json` },
      limits: { callsPerTokenMax: 1, bodyWithinMs: 600_000 },
    })
    const token = await made()
    const caller = connect(Number(new URL(url).port), '127.0.0.1')
    const head = ['POST /v1/requests HTTP/1.1', 'Host: x', `Authorization: Bearer ${token}`, 'Content-Length: 90']
    caller.write(`${head.join('\r\n')}\r\nContent-Type: application/json\r\n\r\n{"requests":`)
    const answer = await asked.promise
    caller.resetAndDestroy()
    // A call that comes after the end of that connection has been read.
    await get(`${url}/healthz`)
    answer()
    const again = async () => (await postRequests(url, [claiming('builds/named:a')], token)).status === 200
    await eventually(again, 'the share of the call that is over', 20_000)
  })

  test('are read once, and again when a token names a key that is not among them', async () => {
    const { state, url: jwks } = await issuerWith(await publicKey(first, 'first'))
    const environment = systemEnvironment()
    let aheadMs = 0
    const { url } = await startServer({
      jwt: { ...options, jwks },
      environment: { ...environment, now: () => environment.now() + aheadMs },
    })
    for (let calls = 0; calls < 3; calls += 1)
      expect(await get(`${url}/v1/store`, await made())).toMatchObject({ status: 200 })
    expect(state.asked).toBe(1)
    state.keys = [await publicKey(second, 'second')]
    const rotated = await made({ key: second, header: { alg: 'RS256', kid: 'second' } })
    expect(await get(`${url}/v1/store`, rotated)).toMatchObject({ status: 401 })
    expect(state.asked).toBe(1)
    aheadMs = 31_000
    expect(await get(`${url}/v1/store`, rotated)).toMatchObject({ status: 200 })
    expect(state.asked).toBe(2)
    expect(await get(`${url}/v1/store`, await made({ expires: '6m' }))).toMatchObject({ status: 401 })
  })

  test('count for a day while the issuer does not answer; without any, a call is answered 503 and may be repeated', async () => {
    const { state, url: jwks } = await issuerWith(await publicKey(first, 'first'))
    const environment = systemEnvironment()
    let aheadMs = 0
    const warnings: string[] = []
    const logger = { debug: () => {}, info: () => {}, warn: (message: string) => void warnings.push(message) }
    const { url } = await startServer({
      jwt: { ...options, jwks },
      logger,
      environment: { ...environment, now: () => environment.now() + aheadMs },
    })
    state.status = 500
    const refused = await get(`${url}/v1/store`, await made())
    expect(refused).toMatchObject({ status: 503, value: { error: { reason: 'network' } } })
    expect(refused.headers.get('retry-after')).toBe('1')
    expect(warnings.join('\n')).toContain('it answered 500')
    // Everybody can send what looks like a JWT: neither the issuer nor the log gets a line for each.
    const strangers = await Promise.all(Array.from({ length: 20 }, async () => get(`${url}/v1/store`, await made())))
    expect(new Set(strangers.map(({ status }) => status))).toEqual(new Set([503]))
    expect(warnings).toHaveLength(1)
    expect(state.asked).toBe(1)
    state.status = 200
    aheadMs = 1000
    expect(await get(`${url}/v1/store`, await made())).toMatchObject({ status: 200 })
    state.status = 500
    aheadMs = 3_600_000
    expect(await get(`${url}/v1/store`, await made({ expires: '2m' }))).toMatchObject({ status: 200 })
    aheadMs = 25 * 3_600_000
    expect(await get(`${url}/v1/store`, await made({ expires: '3m' }))).toMatchObject({ status: 503 })
  })
})

test('a JWT and a token are good side by side, and a client over HTTP locks with either', async () => {
  const tokens = [{ name: 'ci', token: tokenOf('ci'), namespaces: ['builds'], rights: ['lock', 'read'] as const }]
  const { url } = await startServer({ tokens, jwt: options })
  for (const token of [tokenOf('ci'), await made()]) {
    const locks = await createLocks({ driver: http({ url, token }), namespace: 'builds' })
    await (await locks.acquire('nightly')).release()
    await locks.close()
  }
})

test('new settings for JWTs end the streams of their bearers, who sign in anew by the new ones', async () => {
  const server = await startServer({ jwt: options })
  const headers = { authorization: `Bearer ${await made()}`, 'leasehold-session': 'a'.repeat(22) }
  const stream = await fetch(`${server.url}/v1/notifications`, { headers })
  await server.replaceJwt({ ...options, jwks: { keys: [await publicKey(second, 'second')] } })
  await stream.text()
  expect(await get(`${server.url}/v1/store`, await made())).toMatchObject({ status: 401 })
  const next = await made({ key: second, header: { alg: 'RS256', kid: 'second' } })
  expect(await get(`${server.url}/v1/store`, next)).toMatchObject({ status: 200 })
  await expect(server.replaceJwt({ ...options, algorithms: ['none'] })).rejects.toMatchObject({ code: 'INVALID' })
  expect(await get(`${server.url}/v1/store`, next)).toMatchObject({ status: 200 })
})

test.each<[string, object, RegExp]>([
  ['the algorithm none', { algorithms: ['none'] }, /cannot take the algorithm "none"/],
  ['an algorithm with a shared secret', { algorithms: ['HS256'] }, /cannot take the algorithm "HS256"/],
  ['a shared secret among the keys', { jwks: { keys: [{ kty: 'oct', k: 'c2VjcmV0' }] } }, /public keys only/],
  ['a private key among the keys', { jwks: { keys: [{ kty: 'RSA', n: 'x', e: 'AQAB', d: 'x' }] } }, /public keys only/],
  ['no keys', { jwks: { keys: [] } }, /with one at least/],
  ['keys over a network without TLS', { jwks: 'http://issuer.example/jwks' }, /https/],
  ['no audience', { audience: undefined }, /audience/],
  ['no issuer', { issuer: '' }, /issuer/],
  ['no grants', { grants: [] }, /grants/],
  ['a grant without rights', { grants: [{ namespaces: '*' }] }, /needs rights/],
  [
    'both namespaces and a claim for them',
    { grants: [{ namespaces: '*', namespacesClaim: 'n', rights: ['read'] }] },
    /either/,
  ],
  ['a tolerance of an hour', { clockToleranceMs: 3_600_000 }, /clockToleranceMs/],
  ['a word that means nothing', { issuers: [] }, /"issuers"/],
])('settings with %s are refused', async (_, more, reason) => {
  const starting = startServer({ jwt: { ...options, ...more } })
  await expect(starting).rejects.toMatchObject({ code: 'INVALID', message: expect.stringMatching(reason) })
})

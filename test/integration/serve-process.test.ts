import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { http } from '../../src/drivers/http/driver.ts'
import { createLocks, type Locks } from '../../src/index.ts'
import { get, postRequests } from '../support/called.ts'
import { claimOf } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { makePrivateCa } from '../support/private-ca.ts'
import { gone, Workshop, type CommandLine } from './cli-process.ts'

let workshop: Workshop
const opened: Locks[] = []

beforeEach(() => {
  workshop = new Workshop()
})

afterEach(async () => {
  await Promise.all(opened.splice(0).map((locks) => locks.close()))
  await workshop.close()
})

/** Starts a server and gives its URL once it says that it listens. */
async function serve(...options: string[]): Promise<{ server: CommandLine; url: string }> {
  const server = workshop.leasehold('serve', ...options)
  await server.says(/serving .* on https?:\/\//)
  const [, url = ''] = /on (https?:\/\/[^\s,]+)/.exec(server.errors) ?? []
  return { server, url }
}

async function openLocks(url: string): Promise<Locks> {
  const locks = await createLocks({ driver: http(url) })
  opened.push(locks)
  return locks
}

const tokensOf = (token: string): string =>
  JSON.stringify([{ name: 'ci', token, namespaces: ['default'], rights: ['lock', 'read'] }])

function writeTokens(text: string, mode = 0o600): string {
  const file = path.join(workshop.directory, 'tokens.json')
  writeFileSync(file, text)
  chmodSync(file, mode)
  return file
}

describe('leasehold serve', () => {
  test('serves the store to commands on it, and closes when told, holder and waiter or not', async () => {
    const { server, url } = await serve('--port', '0')
    expect(server.errors).toContain(`serving sqlite:${workshop.storeFile} on http://127.0.0.1:`)
    const holder = workshop.leasehold('run', 'nightly', '--store', url, '--', 'sh', '-c', 'echo begun > begun; cat')
    await workshop.written('begun')
    const waiter = workshop.leasehold('run', 'nightly', '--store', url, '--', 'true')
    await eventually(async () => (await workshop.lock('nightly')).waiters.length === 1, 'the waiter')
    server.kill('SIGTERM')
    const { code, errors } = await server.ended()
    expect(code).toBe(0)
    expect(errors).toMatch(/closing on SIGTERM[\s\S]*closed/)
    const again = workshop.leasehold('serve', '--port', new URL(url).port)
    await again.says(/serving/)
    holder.endInput()
    expect((await holder.ended()).code).toBe(0)
    expect((await waiter.ended()).code).toBe(0)
    again.kill('SIGINT')
    expect((await again.ended()).code).toBe(0)
  })

  test('that is killed frees none of its clients’ locks: on its return they hold, renew and release', async () => {
    const port = String(await freePort())
    const { server, url } = await serve('--port', port)
    const locks = await openLocks(url)
    const lease = await locks.acquire('orders/42', { ttl: '20s' })
    server.kill('SIGKILL')
    await server.ended()
    // A process beside the server sees that it died, and that its clients did not.
    const beside = workshop.leasehold('run', 'orders/42', '--wait', '0', '--', 'true')
    expect((await beside.ended()).code).toBe(75)
    await serve('--port', port)
    await eventually(
      () =>
        lease.renew().then(
          () => true,
          () => false,
        ),
      'a renewal',
    )
    expect(lease.held).toBe(true)
    expect(await locks.inspect('orders/42')).toMatchObject({ holders: [{ fence: lease.fence }] })
    await lease.release()
    expect(await locks.inspect('orders/42')).toBeNull()
  })

  test('reads its tokens again on SIGHUP, and keeps the old ones if the new make no sense', async () => {
    const file = writeTokens(tokensOf('first-token-0123456'))
    const { server, url } = await serve('--port', '0', '--tokens', file)
    const status = async (token: string): Promise<number> => (await get(`${url}/v1/store`, token)).status
    expect(await status('first-token-0123456')).toBe(200)
    writeTokens('nonsense with first-token-0123456')
    server.kill('SIGHUP')
    await server.says(/the tokens stay as they were: .*is not JSON/)
    expect(await status('first-token-0123456')).toBe(200)
    writeTokens(tokensOf('second-token-0123456'))
    server.kill('SIGHUP')
    await server.says(/1 token reloaded/)
    expect(await status('first-token-0123456')).toBe(401)
    expect(await status('second-token-0123456')).toBe(200)
    expect(server.errors).not.toMatch(/(first|second)-token/)
    server.kill('SIGTERM')
    expect((await server.ended()).code).toBe(0)
  })

  test('reads certificates, keys and settings of JWTs again on SIGHUP, and keeps what it had where the new makes no sense', async () => {
    const folder = path.join(workshop.directory, 'ca')
    mkdirSync(folder)
    const { caFile, certificateFile, keyFile } = makePrivateCa(folder)
    const file = (name: string): string => path.join(workshop.directory, name)
    const keys = await Promise.all([generateKeyPair('ES256'), generateKeyPair('ES256')])
    const writeKeys = async (at: 0 | 1, kid: string): Promise<void> => {
      const { publicKey } = keys[at]
      writeFileSync(file('jwks.json'), JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid }] }))
    }
    const made = (at: 0 | 1, kid: string): Promise<string> =>
      new SignJWT({ sub: 'me', iss: 'https://issuer.example', aud: 'leasehold' })
        .setProtectedHeader({ alg: 'ES256', kid })
        .setExpirationTime('5m')
        .sign(keys[at].privateKey)
    const settings = { issuer: 'https://issuer.example', audience: 'leasehold', jwks: 'jwks.json' }
    const grants = [{ namespaces: ['default'], rights: ['lock', 'read'] }]
    writeFileSync(file('jwt.json'), JSON.stringify({ ...settings, grants }))
    await writeKeys(0, 'first')
    const tls = ['--tls-cert', certificateFile, '--tls-key', keyFile]
    const { server, url } = await serve('--port', '0', '--jwt', file('jwt.json'), ...tls)
    const opens = async (token: string, ca = readFileSync(caFile)): Promise<unknown> => {
      const driver = http({ url, token, ca })
      const error = await driver.open().then(
        () => undefined,
        (thrown: { readonly reason?: string }) => thrown.reason,
      )
      await driver.close()
      return error
    }
    const oldCa = readFileSync(caFile)
    const locks = await createLocks({ driver: http({ url, token: await made(0, 'first'), ca: oldCa }) })
    opened.push(locks)
    const lease = await locks.acquire('orders/42')
    writeFileSync(keyFile, 'nonsense')
    writeFileSync(file('jwks.json'), 'nonsense')
    server.kill('SIGHUP')
    await server.says(/the settings for JWTs stay as they were: .*is not JSON/)
    await server.says(/the certificates stay as they were: .*cannot be used/)
    expect(await opens(await made(0, 'first'))).toBeUndefined()
    makePrivateCa(folder)
    await writeKeys(1, 'second')
    server.kill('SIGHUP')
    await server.says(/the settings for JWTs reloaded/)
    await server.says(/the certificates reloaded/)
    expect(await opens(await made(1, 'second'))).toBeUndefined()
    expect(await opens(await made(1, 'second'), oldCa)).toBe('network')
    expect(await opens(await made(0, 'first'))).toBe('auth')
    expect(lease.held).toBe(true)
  })

  test('writes the audit to standard output, or to a file that it opens anew on SIGHUP', async () => {
    const tokens = writeTokens(tokensOf('first-token-0123456'))
    const { server, url } = await serve('--port', '0', '--tokens', tokens, '--audit', '-')
    await get(`${url}/v1/store`, 'wrong-token-0123456')
    await eventually(() => server.output.includes('\n'), 'a line')
    expect(JSON.parse(server.output)).toMatchObject({ event: 'sign-in-failed', from: '127.0.0.1' })
    server.kill('SIGTERM')
    expect((await server.ended()).code).toBe(0)
    const file = path.join(workshop.directory, 'audit.jsonl')
    const second = await serve('--port', '0', '--tokens', tokens, '--audit', file)
    await get(`${second.url}/v1/store`, 'wrong-token-0123456')
    await workshop.written('audit.jsonl')
    renameSync(file, `${file}.1`)
    second.server.kill('SIGHUP')
    await second.server.says(/the audit reopened/)
    await get(`${second.url}/v1/store`)
    expect(JSON.parse(await workshop.written('audit.jsonl'))).toMatchObject({ why: expect.stringContaining('wants a') })
  })

  test('serves on while nobody reads its audit from a pipe, and ends when told', async () => {
    const tokens = writeTokens(tokensOf('first-token-0123456'))
    // The reader never reads, and ends by itself a little later.
    const serving = `sh -c 'echo $$ > server; exec leasehold serve --port 0 --tokens ${tokens} --audit -'`
    const shell = workshop.inShell(`${serving} | sleep 60`)
    await shell.says(/serving .* on http:/)
    const [, url = ''] = /on (http:[^\s,]+)/.exec(shell.errors) ?? []
    // More than a pipe holds: 64 KiB.
    const batch = Array.from({ length: 1000 }, (_, index) => ({
      op: 'claim' as const,
      claim: claimOf(`default/named:${index}`),
    }))
    const answered = await postRequests(url, batch, 'first-token-0123456')
    expect(answered.status).toBe(200)
    expect(await get(`${url}/v1/store`, 'first-token-0123456')).toMatchObject({ status: 200 })
    const { text } = await get(`${url}/metrics`, 'first-token-0123456')
    expect(text).toContain('leasehold_server_audit_dropped_total 0')
    const pid = Number(await workshop.written('server'))
    process.kill(pid, 'SIGTERM')
    await shell.says(/closed/)
    await gone(pid)
  })

  test('refuses tokens that others can read, as ssh does with keys', async () => {
    const file = writeTokens(tokensOf('first-token-0123456'), 0o644)
    const { code, errors } = await workshop.leasehold('serve', '--port', '0', '--tokens', file).ended()
    expect(code).toBe(64)
    expect(errors).toContain('chmod 600')
  })

  test('speaks TLS with a certificate and its key', async () => {
    const directory = path.join(workshop.directory, 'ca')
    mkdirSync(directory)
    const { caFile, certificateFile, keyFile } = makePrivateCa(directory)
    const { url } = await serve('--port', '0', '--tls-cert', certificateFile, '--tls-key', keyFile)
    expect(url).toMatch(/^https:/)
    const locks = await createLocks({ driver: http({ url, ca: readFileSync(caFile) }) })
    opened.push(locks)
    await (await locks.acquire('orders/42')).release()
    await expect(http(url).open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
  })

  test.each([
    [['--port', 'x'], /not a whole number/],
    [['--port', '70000'], /0 to 65535/],
    [['--host', '0.0.0.0'], /Give it tokens/],
    [['--tls-cert', 'a'], /go together/],
    [['--tokens', 'missing.json'], /cannot be read/],
    [['--jwt', 'missing.json'], /cannot be read/],
    [['--audit', 'missing/audit'], /audit cannot be written/],
    [['--audit-renewals'], /needs --audit/],
    [['--token-rate', 'x'], /a number above 0/],
    [['--address-rate', '5/x'], /a number above 0/],
    [['--trusted-proxies', 'x'], /no address of a proxy/],
    [['--tls-clients', 'required'], /needs --tls-client-ca/],
    [['--tls-client-ca', 'a'], /go together/],
    [['more'], /one word too many/],
  ])('with %j ends with 64 and says why', async (options, message) => {
    const { code, errors } = await workshop.leasehold('serve', ...options).ended()
    expect({ code, errors }).toEqual({ code: 64, errors: expect.stringMatching(message) })
  })
})

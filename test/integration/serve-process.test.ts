import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { http } from '../../src/drivers/http/driver.ts'
import { createLocks, type Locks } from '../../src/index.ts'
import { get } from '../support/called.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { makePrivateCa } from '../support/private-ca.ts'
import { Workshop, type CommandLine } from './cli-process.ts'

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
    [['more'], /one word too many/],
  ])('with %j ends with 64 and says why', async (options, message) => {
    const { code, errors } = await workshop.leasehold('serve', ...options).ended()
    expect({ code, errors }).toEqual({ code: 64, errors: expect.stringMatching(message) })
  })
})

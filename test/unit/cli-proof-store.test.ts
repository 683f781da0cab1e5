import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  linkSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import path from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { identifyStores } from '../../src/cli/stores/store.ts'
import { connect } from '../../src/index.ts'
import { cliBench } from './support/cli-bench.ts'
import { folderForTest } from '../support/test-folder.ts'
import { listen } from '../support/loopback.ts'

let folder: string
beforeEach(() => {
  folder = folderForTest('proof')
})
const inFolder = (name: string) => path.join(folder, name)

/** A lock "a" in a file of its own, and the proof of it. */
async function acquired(...more: string[]) {
  const { leasehold, shown, context } = cliBench()
  context.variables = {}
  const store = `sqlite:${inFolder('a.sqlite')}`
  const proof = inFolder('proof')
  expect(await leasehold('acquire', 'a', '--ttl', '10m', '--proof', proof, '--store', store, ...more)).toBe(0)
  const isHeld = async () => {
    await using locks = await connect(store)
    return (await locks.inspect('a')) !== null
  }
  return { leasehold, shown, context, store, proof, isHeld }
}

describe('a proof', () => {
  test('knows its store', async () => {
    const { leasehold, proof, isHeld } = await acquired()
    expect(await leasehold('renew', '--proof', proof)).toBe(0)
    expect(await leasehold('release', '--proof', proof)).toBe(0)
    expect(await isHeld()).toBe(false)
    expect(existsSync(proof)).toBe(false)
  })

  test('is not asked about in another store, and stays', async () => {
    const { leasehold, shown, context, store, proof, isHeld } = await acquired()
    const other = `sqlite:${inFolder('b.sqlite')}`
    await (await connect(other)).close()
    for (const command of ['renew', 'release']) {
      expect(await leasehold(command, '--proof', proof, '--store', other)).toBe(64)
      expect(shown.errors).toContain(`The proof is of a lock in ${store}, not in ${other}, which --store names`)
      context.variables = { LEASEHOLD_STORE: other }
      expect(await leasehold(command, '--proof', proof)).toBe(64)
      expect(shown.errors).toContain('which LEASEHOLD_STORE names')
      expect(shown.errors).not.toMatch(/is over|no longer yours/)
      context.variables = {}
    }
    expect(await isHeld()).toBe(true)
    expect(await leasehold('release', '--proof', proof, '--store', store)).toBe(0)
  })

  test('is of one namespace', async () => {
    const { leasehold, shown, proof, isHeld } = await acquired()
    for (const command of ['renew', 'release']) {
      expect(await leasehold(command, '--proof', proof, '--namespace', 'other')).toBe(64)
      expect(shown.errors).toContain('in the namespace "default", not "other"')
    }
    expect(await isHeld()).toBe(true)
    expect(await leasehold('release', '--proof', proof, '--namespace', 'default')).toBe(0)
  })

  test('goes when its own store says that the lock is over', async () => {
    const { leasehold, shown, store, proof } = await acquired()
    await using locks = await connect(store, { allowForce: true })
    await locks.evict('a', { reason: 'stuck' })
    expect(await leasehold('renew', '--proof', proof)).toBe(76)
    expect(existsSync(proof)).toBe(true)
    expect(await leasehold('release', '--proof', proof)).toBe(76)
    expect(shown.errors).toContain('the lock is no longer yours')
    expect(existsSync(proof)).toBe(false)
  })

  test('stays when the file of its store is gone', async () => {
    const { leasehold, shown, proof } = await acquired()
    for (const ending of ['', '-wal', '-shm']) rmSync(`${inFolder('a.sqlite')}${ending}`, { force: true })
    expect(await leasehold('renew', '--proof', proof)).toBe(69)
    expect(await leasehold('release', '--proof', proof)).toBe(69)
    expect(shown.errors).toContain('There is no lock file')
    expect(existsSync(proof)).toBe(true)
    expect(existsSync(inFolder('a.sqlite'))).toBe(false)
  })

  test('of an older version does not say which store it is of, and still works', async () => {
    const { leasehold, shown, store, proof, isHeld } = await acquired()
    const { store: _store, ...old } = JSON.parse(readFileSync(proof, 'utf8')) as Record<string, unknown>
    writeFileSync(proof, JSON.stringify(old))
    for (const command of ['renew', 'release']) {
      expect(await leasehold(command, '--proof', proof)).toBe(76)
      expect(shown.errors).toContain('does not say whether this is the right store')
      expect(shown.errors).not.toMatch(/is over|no longer yours/)
    }
    expect(await leasehold('renew', '--proof', proof, '--store', store)).toBe(0)
    expect(await leasehold('release', '--proof', proof, '--store', store)).toBe(0)
    expect(await isHeld()).toBe(false)
  })

  test('of a store with a password keeps it to itself, and asks for it', async () => {
    const { leasehold, shown, proof } = await acquired()
    const read = JSON.parse(readFileSync(proof, 'utf8')) as object
    writeFileSync(proof, JSON.stringify({ ...read, store: identifyStores('redis://:secret@127.0.0.1:1/2') }))
    expect(readFileSync(proof, 'utf8')).not.toContain('secret')
    expect(await leasehold('release', '--proof', proof)).toBe(64)
    expect(shown.errors).toContain('in redis://127.0.0.1:1/2. Its URL said more, such as a password')
    expect(await leasehold('release', '--proof', proof, '--store', 'redis://:other@127.0.0.1:1/2')).toBe(69)
    expect(existsSync(proof)).toBe(true)
  })
})

describe('a proof of somebody else', () => {
  /** A server that notes what it is asked, and a proof that names it. */
  async function trap() {
    const asked: (string | undefined)[] = []
    const server = createServer((request, response) => {
      asked.push(request.headers.authorization)
      response.writeHead(404).end()
    })
    const port = await listen(server)
    onTestFinished(() => void server.close())
    const { proof, leasehold, shown, context } = await acquired()
    const url = `http://127.0.0.1:${port}`
    const read = JSON.parse(readFileSync(proof, 'utf8')) as object
    writeFileSync(proof, JSON.stringify({ ...read, store: { url, isWhole: true } }))
    return { asked, proof, leasehold, shown, context, url }
  }

  const withToken = (variables: Record<string, string> = {}) => {
    vi.stubEnv('LEASEHOLD_TOKEN', 'our-own-secret')
    onTestFinished(() => void vi.unstubAllEnvs())
    return { ...variables, LEASEHOLD_TOKEN: 'our-own-secret' }
  }

  test.each(['renew', 'release'])('does not make %s send our token to a server of its choice', async (command) => {
    const { asked, proof, leasehold, shown, context, url } = await trap()
    context.variables = withToken()
    expect(await leasehold(command, '--proof', proof)).toBe(64)
    expect(shown.errors).toContain(`a lock in ${url}, where your credentials would be sent`)
    expect(asked).toEqual([])
    expect(existsSync(proof)).toBe(true)
    // The server that the user names has it.
    context.variables = withToken({ LEASEHOLD_STORE: url })
    expect(await leasehold(command, '--proof', proof)).not.toBe(64)
    expect(asked[0]).toBe('Bearer our-own-secret')
  })

  test('is asked without a token where there is none to lose', async () => {
    const { asked, proof, leasehold } = await trap()
    expect(await leasehold('release', '--proof', proof)).not.toBe(64)
    expect(asked[0]).toBeUndefined()
    expect(asked).not.toEqual([])
  })

  test.each([
    'github:owner/repo?api=http://127.0.0.1:1',
    'postgres://127.0.0.1:1/db',
    'mongodb://127.0.0.1:1/db',
    'mysql://127.0.0.1:1/db',
    'quorum:redis://127.0.0.1:1,redis://127.0.0.1:2,postgres://127.0.0.1:3/db',
  ])('in %s is not opened with what our files and variables hold', async (url) => {
    const { proof, leasehold, shown } = await trap()
    const read = JSON.parse(readFileSync(proof, 'utf8')) as object
    writeFileSync(proof, JSON.stringify({ ...read, store: { url, isWhole: true } }))
    expect(await leasehold('release', '--proof', proof)).toBe(64)
    expect(shown.errors).toContain('where your credentials would be sent')
  })

  test.skipIf(process.getuid?.() !== 0)('is not used if it belongs to another user', async () => {
    const { asked, proof, leasehold, shown } = await trap()
    chownSync(proof, 65_534, 65_534)
    for (const command of ['renew', 'release']) expect(await leasehold(command, '--proof', proof)).toBe(64)
    expect(shown.errors).toContain('belongs to another user')
    expect(asked).toEqual([])
  })

  test.skipIf(process.getuid?.() !== 0)('is not used by way of a link that somebody else made', async () => {
    const { proof, leasehold, shown, isHeld } = await acquired()
    const link = inFolder('link')
    symlinkSync(proof, link)
    lchownSync(link, 65_534, 65_534)
    for (const command of ['renew', 'release']) expect(await leasehold(command, '--proof', link)).toBe(64)
    expect(shown.errors).toContain('is a link of another user')
    expect(await isHeld()).toBe(true)
    const own = inFolder('own')
    symlinkSync(proof, own)
    expect(await leasehold('release', '--proof', own)).toBe(0)
  })

  test('is not used by a second name, which anybody may have made', async () => {
    const { proof, leasehold, shown, isHeld } = await acquired()
    linkSync(proof, inFolder('second'))
    for (const command of ['renew', 'release']) expect(await leasehold(command, '--proof', inFolder('second'))).toBe(64)
    expect(shown.errors).toContain('has a second name')
    expect(await isHeld()).toBe(true)
  })

  test.skipIf(process.getuid?.() !== 0)('of another user is not used by way of a link of our own either', async () => {
    const { asked, proof, leasehold, shown } = await trap()
    chownSync(proof, 65_534, 65_534)
    symlinkSync(proof, inFolder('link'))
    expect(await leasehold('release', '--proof', inFolder('link'))).toBe(64)
    expect(shown.errors).toContain('belongs to another user')
    expect(asked).toEqual([])
  })

  test.each([0o620, 0o602, 0o666])('is not used if others could have written it: mode %o', async (mode) => {
    const { asked, proof, leasehold, shown } = await trap()
    chmodSync(proof, mode)
    for (const command of ['renew', 'release']) expect(await leasehold(command, '--proof', proof)).toBe(64)
    expect(shown.errors).toContain('Others can write to')
    expect(asked).toEqual([])
  })

  test('is not waited for if it is a pipe, and not read if it is huge', async () => {
    const { leasehold, shown } = cliBench()
    execFileSync('mkfifo', [inFolder('pipe')])
    writeFileSync(inFolder('huge'), ' '.repeat(100_000), { mode: 0o600 })
    for (const name of ['pipe', 'huge', '.']) {
      expect(await leasehold('release', '--proof', inFolder(name))).toBe(64)
      expect(shown.errors).toContain('holds no proof of a lock')
    }
  })
})

describe('the same store', () => {
  test.each([
    ['redis://127.0.0.1', 'redis://user:pass%40word@127.0.0.1:6379/0'],
    ['redis://HOST:7000/3', 'redis://host:7000/3?password=x'],
    ['redis-cluster://a,b', 'redis-cluster://:x@a,b'],
    ['postgres://host/app?schema=locks', 'postgresql://user:a@b@host:5432/app?poolSize=3&schema=locks'],
    ['mongodb://a,b/app', 'mongodb://u:p@a:27017,b:27017/app?replicaSet=rs'],
    ['mysql://host/app?table=locks', 'mariadb://u:p@HOST:3306/app?poolSize=3&table=locks'],
    ['https://locks.example', 'https://LOCKS.example:443/'],
    ['github:Owner/Repo', 'github:owner/repo?settle=5s'],
    ['quorum:redis://a,redis://b,redis://c', 'quorum:redis://:x@a,redis://b:6379,redis://c,?votesAfter=2m'],
  ])('%s is %s', (one, other) => {
    expect(identifyStores(other).url).toBe(identifyStores(one).url)
    expect(identifyStores(one).isWhole).toBe(true)
  })

  test.each([
    ['redis://a', 'redis://a/1'],
    ['redis://a', 'rediss://a'],
    ['redis://a', 'redis://a:1'],
    ['postgres://a/b', 'postgres://a/b?schema=c'],
    ['mysql://a/b', 'mysql://a/b?table=c'],
    ['postgres://a/b', 'postgres-advisory://a/b'],
    ['sqlite:a', 'sqlite:b'],
  ])('%s is not %s', (one, other) => {
    expect(identifyStores(other).url).not.toBe(identifyStores(one).url)
  })

  test('is a file by any of its names', () => {
    writeFileSync(inFolder('real.sqlite'), '')
    symlinkSync(inFolder('real.sqlite'), inFolder('other.sqlite'))
    expect(identifyStores(`sqlite:${inFolder('other.sqlite')}`)).toEqual(
      identifyStores(`sqlite:${inFolder('real.sqlite')}`),
    )
  })

  test('is known by its URL alone unless that had a secret, or anything that might be one', () => {
    for (const url of ['redis://:secret@h', 'postgres://h/d?sslpassword=secret', 'http://h?token=secret']) {
      const identity = identifyStores(url)
      expect(identity.isWhole).toBe(false)
      expect(identity.url).not.toContain('secret')
    }
  })
})

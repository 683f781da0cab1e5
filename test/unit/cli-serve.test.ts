import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { runCommandLine } from '../../src/cli/command-line.ts'
import { messagesTo } from '../../src/cli/output/messages.ts'
import { readJwtFile } from '../../src/cli/stores/jwt-file.ts'
import { readTokensFile } from '../../src/cli/stores/tokens-file.ts'
import { connect } from '../../src/index.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'
import { folderForTest } from '../support/test-folder.ts'
import { listen } from '../support/loopback.ts'
import { makePrivateCa } from '../support/private-ca.ts'
import { cliBench } from './support/cli-bench.ts'

function serving(store: string): { readonly code: Promise<number>; readonly errors: () => string } {
  let errors = ''
  const code = runCommandLine(['serve', '--store', store, '--port', '0'], {
    variables: {},
    messages: messagesTo((text) => (errors += text), undefined),
    print: () => {},
    drained: async () => {},
    connect,
    ask: undefined,
  })
  return { code, errors: () => errors }
}

test('a server that is told to end while it starts ends, whatever it was told before', async () => {
  const { code, errors } = serving('memory:')
  process.emit('SIGHUP', 'SIGHUP')
  process.emit('SIGINT', 'SIGINT')
  expect(await code).toBe(0)
  expect(errors()).toMatch(/serving memory: .*\n.*closing on SIGINT.*\n.*closed\n/)
})

test('a server whose store is not open yet is not waited for when it is told twice', async () => {
  const sockets: Socket[] = []
  const silent = createServer((socket) => void sockets.push(socket))
  const port = await listen(silent)
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    silent.close()
  })
  const { code } = serving(`redis://127.0.0.1:${port}`)
  process.emit('SIGINT', 'SIGINT')
  process.emit('SIGINT', 'SIGINT')
  expect(await code).toBe(130)
})

test.skipIf(process.getuid?.() !== 0)('the tokens of another user are not read', () => {
  const folder = folderForTest('tokens')
  const file = path.join(folder, 'tokens.json')
  writeFileSync(file, '[]', { mode: 0o600 })
  chownSync(file, 65_534, 65_534)
  expect(() => readTokensFile(file)).toThrow(/belongs to another user/)
})

const isRoot = process.getuid?.() === 0

test.skipIf(!isRoot)('authorities of clients that another user made, or may change, are not used', async () => {
  const folder = folderForTest('authorities')
  const { certificateFile, keyFile, caFile } = makePrivateCa(folder)
  const { leasehold, shown } = cliBench()
  const tls = ['--tls-cert', certificateFile, '--tls-key', keyFile, '--tls-client-ca', caFile]
  const args = ['serve', '--store', 'memory:', '--port', '0', ...tls]
  chownSync(caFile, 65_534, 65_534)
  expect(await leasehold(...args)).toBe(64)
  expect(shown.errors).toContain(`${caFile} with the authorities belongs to another user`)
  chownSync(caFile, 0, 0)
  chmodSync(caFile, 0o666)
  expect(await leasehold(...args)).toBe(64)
  expect(shown.errors).toContain(`Others can change the authorities in ${caFile}. Run: chmod go-w`)
})

test.skipIf(process.platform === 'win32')('a pipe in the place of a file is not waited for', () => {
  const folder = folderForTest('pipes')
  const pipe = path.join(folder, 'pipe')
  execFileSync('mkfifo', ['-m', '600', pipe])
  expect(() => readJwtFile(pipe)).toThrow(`${pipe} is not a file with the JWT settings`)
  expect(() => readTokensFile(pipe)).toThrow(`${pipe} is not a file with the tokens`)
})

// Kubernetes mounts a secret for a group (fsGroup), systemd a credential with an entry for its user, which shows as the group's.
test.skipIf(process.getuid?.() !== 0)(
  'tokens of root may be for the group of the server, as those of a container are',
  () => {
    const folder = makeFolder('tokens')
    const serverId = 65_533
    const tokens = [{ name: 'ci', token: 'c'.repeat(16), namespaces: '*', rights: ['lock'] }]
    onTestFinished(() => {
      process.seteuid?.(0)
      process.setegid?.(0)
      removeFolder(folder)
    })
    chmodSync(folder, 0o755)
    const file = path.join(folder, 'tokens.json')
    writeFileSync(file, JSON.stringify(tokens))
    chownSync(file, 0, serverId)
    const readWith = (mode: number) => () => {
      chmodSync(file, mode)
      process.setegid?.(serverId)
      process.seteuid?.(serverId)
      try {
        return readTokensFile(file)
      } finally {
        process.seteuid?.(0)
        process.setegid?.(0)
      }
    }
    expect(readWith(0o440)()).toEqual(tokens)
    expect(readWith(0o640)()).toEqual(tokens)
    for (const mode of [0o644, 0o660, 0o604, 0o650]) expect(readWith(mode)).toThrow(`Run: chmod 640 ${file}`)
    chownSync(file, serverId, serverId)
    expect(readWith(0o640)).toThrow(`Run: chmod 600 ${file}`)
    chownSync(file, 0, 0)
    chmodSync(file, 0o640)
    expect(() => readTokensFile(file)).toThrow(`Run: chmod 600 ${file}`)
  },
)

test.skipIf(process.platform === 'win32')('a private key that others can read is not used', async () => {
  const { certificateFile, keyFile } = makePrivateCa(folderForTest('private-key'))
  const { leasehold, shown } = cliBench()
  chmodSync(keyFile, 0o644)
  const args = ['serve', '--store', 'memory:', '--port', '0', '--tls-cert', certificateFile, '--tls-key', keyFile]
  expect(await leasehold(...args)).toBe(64)
  expect(shown.errors).toContain(`Others can read the private key in ${keyFile}. Run: chmod 600 ${keyFile}`)
})

test.skipIf(process.platform === 'win32')('tokens are not waited for in a pipe', () => {
  const pipe = path.join(folderForTest('tokens'), 'pipe')
  execFileSync('mkfifo', [pipe])
  expect(() => readTokensFile(pipe)).toThrow(/is not a file with the tokens/)
})

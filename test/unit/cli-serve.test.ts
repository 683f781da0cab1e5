import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { runCommandLine } from '../../src/cli/command-line.ts'
import { messagesTo } from '../../src/cli/speaking/messages.ts'
import { readTokensFile } from '../../src/cli/stores/tokens-file.ts'
import { connect } from '../../src/index.ts'

function serving(store: string): { readonly code: Promise<number>; readonly errors: () => string } {
  let errors = ''
  const code = runCommandLine(['serve', '--store', store, '--port', '0'], {
    variables: {},
    messages: messagesTo((text) => (errors += text), undefined),
    print: () => {},
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
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    silent.close()
  })
  const { code } = serving(`redis://127.0.0.1:${(silent.address() as AddressInfo).port}`)
  process.emit('SIGINT', 'SIGINT')
  process.emit('SIGINT', 'SIGINT')
  expect(await code).toBe(130)
})

test.skipIf(process.getuid?.() !== 0)('the tokens of another user are not read', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'leasehold-tokens-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = path.join(folder, 'tokens.json')
  writeFileSync(file, '[]', { mode: 0o600 })
  chownSync(file, 65_534, 65_534)
  expect(() => readTokensFile(file)).toThrow(/belong to another user/)
})

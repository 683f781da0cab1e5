/** Whatever strangers wrote into a store: no control character of it reaches the terminal of any command, or a message. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { messagesTo } from '../../src/cli/output/messages.ts'
import type { Claim, LockDriver, Runner } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { connect, LeaseholdError } from '../../src/index.ts'
import { folderForTest } from '../support/test-folder.ts'
import { cliBench } from './support/cli-bench.ts'

/** Everything that could steer a terminal: C0 but for the ends of lines, DEL, C1, text direction, invisible characters. */
const steering = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u
const sequences = [
  '\u001b[2J',
  '\u001b]0;owned\u0007',
  '\u009b31m',
  '\r',
  '\n',
  '\u202e',
  '\u2066',
  '\u2028',
  '\u200b',
  '\u007f',
]
const controls = fc.oneof(
  fc.constantFrom(...sequences),
  fc.integer({ min: 1, max: 0x9f }).map((code) => String.fromCharCode(code)),
)
const hostile = fc
  .array(fc.oneof(controls, fc.constantFrom('a', ' ', '"', '\\', 'é')), { minLength: 1, maxLength: 8 })
  .map((parts) => `\u001b${parts.join('')}`)

/** A store in which strangers hold and wait for locks, with `text` wherever they may write. */
async function hauntedStore(name: string, text: string): Promise<LockDriver> {
  const driver = memory({ name })
  await driver.open()
  const metadata = { user: text, command: text, [`more ${text}`]: [{ [text]: text }] }
  const runner: Runner = { id: text, incarnation: text, host: text, pid: 1, client: text, owner: text, metadata }
  const claim = (key: string, id: string): Claim => {
    return { key, id, mode: 'exclusive', priority: 0, wait: true, ttlMs: 600_000, graceMs: 5000, runner }
  }
  const keys = ['default/named:plain', 'default/named:leader:plain', `default/named:${text}`, `default/${text}:${text}`]
  for (const key of keys) {
    const [status] = await driver.send(['one', 'two'].map((id) => ({ op: 'claim', claim: claim(key, id) }) as const))
    if (status?.state !== 'held') continue
    // The holder is asked to leave, and has a grace: the reason is shown meanwhile.
    await driver.send([{ op: 'evict', key, fence: status.fence, reason: text }])
  }
  return driver
}

const commands: readonly (readonly string[])[] = [
  ['ls'],
  ['ls', '--json'],
  ['ls', '-A', '-o', 'wide'],
  ['ls', '-o', 'yaml'],
  ['explain'],
  ['explain', '-A'],
  ['explain', 'plain'],
  ['explain', 'plain', '--json'],
  ['watch', 'plain'],
  ['watch', 'plain', '--json'],
  ['watch', '--all'],
  ['watch', '--all', '--json'],
  ['run', 'plain', '--no-wait', '--', 'true'],
  ['run', 'plain', '--wait', '20ms', '--', 'true'],
  ['elect', 'plain', '--', 'true'],
  ['acquire', 'plain', '--no-wait', '--ttl', '1m', '--proof', 'PROOF-TO-BE'],
  ['renew', '--proof', 'PROOF'],
  ['release', '--proof', 'PROOF'],
  ['evict', 'plain', '--reason', 'TEXT', '--yes'],
  ['doctor'],
  ['doctor', '--json'],
  ['bench', '--for', '1ms', '--locks', '1', '--clients', '2'],
  ['serve', '--tokens', 'TEXT'],
  ['TEXT'],
  ['ls', 'TEXT', 'TEXT'],
  ['explain', 'TEXT', '--kind', 'TEXT'],
  ['run', 'plain', '--ttl', 'TEXT', '--', 'TEXT'],
]

const named = commands.map((args) => [args.join(' '), args] as const)

/** A command line at a terminal, which is interrupted when it prints, and a candidate when it says that it waits. */
function terminalBench([word]: readonly string[]) {
  const bench = cliBench()
  const { context, shown } = bench
  // A status line is erased and rewritten by sequences of our own.
  const write = (written: string): void => {
    shown.errors += written.replaceAll('\r\u001b[2K', '')
    if (word === 'elect' && shown.errors !== '') interrupt()
  }
  context.messages = messagesTo(write, { columns: 200 })
  context.print = (printed) => {
    shown.output += printed
    interrupt()
  }
  return bench
}

function interrupt(): void {
  setImmediate(() => process.emit('SIGINT', 'SIGINT'))
}

/** The arguments with the hostile text and the files in their places. */
function filledIn(args: readonly string[], folder: string, text: string): string[] {
  const proof = path.join(folder, 'proof')
  const content = {
    version: 1,
    key: `default/named:${text}`,
    id: text,
    fence: 1,
    ttlMs: 1000,
    store: { url: `x:${text}` },
  }
  writeFileSync(proof, JSON.stringify(content), { mode: 0o600 })
  const places: Readonly<Record<string, string>> = { TEXT: text, PROOF: proof, 'PROOF-TO-BE': path.join(folder, 'new') }
  return args.map((word) => places[word] ?? word)
}

test.each(named)('nothing that is stored steers the terminal of: %s', async (_, args) => {
  const folder = folderForTest('hostile-text')
  const keepAlive = (): void => {}
  // Between two runs nothing else would take the signal.
  process.on('SIGINT', keepAlive)
  try {
    await fc.assert(
      fc.asyncProperty(hostile, async (text) => {
        const { store, shown, leasehold } = terminalBench(args)
        const driver = await hauntedStore(store.replace('memory:', ''), text)
        await leasehold(...filledIn(args, folder, text))
        await driver.close()
        expect(`${shown.output}${shown.errors}`).not.toBe('')
        expect(`${shown.output}${shown.errors}`).not.toMatch(steering)
      }),
      { numRuns: 12 },
    )
  } finally {
    process.off('SIGINT', keepAlive)
  }
})

describe.each([
  ['an error', (text: string) => new Error(text)],
  ['our own error', (text: string) => new LeaseholdError('UNAVAILABLE', text, { reason: text })],
  ['text', (text: string) => text],
])('what a store fails with, as %s,', (_, fault) => {
  test.each(named.filter(([line]) => !line.startsWith('serve')))('steers no terminal of: %s', async (_line, args) => {
    const folder = folderForTest('hostile-text')
    await fc.assert(
      fc.asyncProperty(hostile, async (text) => {
        const { context, shown, leasehold } = terminalBench(args)
        context.connect = () => Promise.reject(fault(text))
        await leasehold(...filledIn(args, folder, text))
        expect(`${shown.output}${shown.errors}`).not.toBe('')
        expect(`${shown.output}${shown.errors}`).not.toMatch(steering)
      }),
      { numRuns: 5 },
    )
  })
})

test('nothing that is stored steers the terminal of a program that prints our errors and explanations', async () => {
  await fc.assert(
    fc.asyncProperty(hostile, fc.uuid(), async (text, name) => {
      const driver = await hauntedStore(name, text)
      await using locks = await connect(`memory:${name}`)
      const held = await locks.acquire('plain', { wait: 1 }).catch((error: Error) => error.message)
      expect(held).toMatch(/^TIMEOUT: /)
      expect(held).not.toMatch(steering)
      expect(await locks.explain('plain')).not.toMatch(steering)
      await driver.close()
    }),
    { numRuns: 50 },
  )
})

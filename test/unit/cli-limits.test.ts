import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { cliBench } from './support/cli-bench.ts'
import { folderForTest } from '../support/test-folder.ts'

let folder: string
beforeEach(() => {
  folder = folderForTest('limits')
})

/** What is no duration for any option. */
const noDuration = [
  '1e309',
  'Infinity',
  'NaN',
  '-1',
  '-1s',
  '',
  '30',
  '1.5',
  '1e3s',
  '5 s',
  ' 5s',
  '5S',
  '0x10s',
  '1h-1s',
]
const tooLong = ['36501d', '9999999d', '99999999999999999999d', `${'9'.repeat(60)}d`]
const anyTime = [...noDuration, ...tooLong]
const someTime = [...anyTime, '0', '0s', '0.4ms', '000']

/** What is no number for any option. */
const noNumber = ['1e309', 'Infinity', 'NaN', '', '1.5', '0x10', ' 3', 'many', '--', '9007199254740992', '9'.repeat(40)]
const priority = [...noNumber, '1001', '-1001', 'urgent', 'High', '__proto__']

const run = {
  ttl: someTime,
  wait: anyTime,
  'max-hold': someTime,
  'stale-after': someTime,
  priority,
  permits: [...noNumber, '0', '-1'],
}
const { wait: _wait, 'stale-after': _staleAfter, permits: _permits, ...elect } = run

/** Every option of every command that is a number or a duration, and what it must not be. */
const commands: Record<string, { words: string[]; after?: string[]; options: Record<string, string[]> }> = {
  run: { words: ['run', 'a'], after: ['--', 'touch', 'ran'], options: { ...run, 'kill-after': anyTime } },
  elect: { words: ['elect', 'a'], after: ['--', 'touch', 'ran'], options: { ...elect, 'kill-after': anyTime } },
  acquire: { words: ['acquire', 'a', '--ttl', '1m', '--proof', 'proof'], options: run },
  bench: {
    words: ['bench'],
    options: {
      for: [...someTime, '25h'],
      locks: [...noNumber, '0', '-1', '10001'],
      clients: [...noNumber, '1', '-1', '101'],
    },
  },
  evict: { words: ['evict', 'a', '--reason', 'x', '--yes'], options: { fence: [...noNumber, '0', '-1'] } },
  serve: { words: ['serve', '--host', '127.0.0.1'], options: { port: [...noNumber, '-1', '65536'] } },
}

describe.each(Object.entries(commands))('%s', (_, { words, after = [], options }) => {
  test.each(Object.entries(options))('refuses --%s beyond its limits, and starts nothing', async (option, values) => {
    const file = (name: string) => path.join(folder, name)
    const store = ['--store', `sqlite:${file('locks.sqlite')}`]
    const own = words.map((word) => (word === 'proof' ? file('proof') : word))
    const command = after.map((word) => (word === 'ran' ? file('ran') : word))
    const extra = option === 'stale-after' ? ['--on-conflict', 'steal-stale'] : []
    for (const value of values) {
      const { leasehold, shown } = cliBench()
      const code = await leasehold(...own, ...store, ...extra, `--${option}=${value}`, ...command)
      expect({ value, code }).toEqual({ value, code: 64 })
      expect(shown.errors).toContain(`--${option}`)
      expect(shown.output).toBe('')
    }
    expect(readdirSync(folder)).toEqual([])
  })
})

test('renew refuses a ttl beyond its limits, and the lock stays as it was', async () => {
  const proof = path.join(folder, 'proof')
  const { leasehold, shown } = cliBench()
  expect(await leasehold('acquire', 'a', '--ttl', '10m', '--proof', proof)).toBe(0)
  for (const value of someTime) {
    expect({ value, code: await leasehold('renew', '--proof', proof, `--ttl=${value}`) }).toEqual({ value, code: 64 })
  }
  expect(await leasehold('explain', 'a')).toBe(0)
  expect(shown.output).toMatch(/(9 min 5\d s|10 min 0 s) left/)
  expect(await leasehold('release', '--proof', proof)).toBe(0)
  expect(existsSync(proof)).toBe(false)
})

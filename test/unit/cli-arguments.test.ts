import { describe, expect, test } from 'vitest'
import {
  anyTime,
  commonOptions,
  durationOption,
  numberOption,
  onlyName,
  parseArguments,
} from '../../src/cli/arguments.ts'
import { readRunRequest, runOptions } from '../../src/cli/supervise/run-request.ts'
import { nearest } from '../../src/core/contract/option-names.ts'
import { cliBench } from './support/cli-bench.ts'

const options = { ...commonOptions, json: { type: 'boolean' }, fence: { type: 'string' } } as const
const parse = (...args: string[]) => parseArguments(args, options)
const readRun = (own: string[], command: string[] = ['true']) =>
  readRunRequest('run', { ...parseArguments(own, runOptions), command })

describe('options', () => {
  test('options and names may come in any order', () => {
    const given = parse('a', '--json', '--store', 'memory:', 'b')
    expect(given.positionals).toEqual(['a', 'b'])
    expect(given.flags.has('json')).toBe(true)
    expect(given.texts.get('store')).toBe('memory:')
  })

  test('a value may follow an equals sign and may begin with a dash', () => {
    expect(parse('--store=memory:x').texts.get('store')).toBe('memory:x')
    expect(numberOption(parse('--fence', '-5'), 'fence', { from: -9, to: 9 })).toBe(-5)
  })

  test('what follows two dashes is no option', () => {
    expect(parse('--', '--json').positionals).toEqual(['--json'])
    expect(onlyName(parse('--', '-odd'), 'explain')).toBe('-odd')
  })

  test('an unknown option is refused with the one that was probably meant', () => {
    expect(() => parse('--jsno')).toThrow('Did you mean --json?')
    expect(() => parse('--names')).toThrow('Did you mean --namespace?')
    expect(() => parse('--xyzzy')).toThrow(/There is no option "--xyzzy"\.$/)
    expect(() => parse('--__proto__')).toThrow('There is no option')
  })

  test('a missing or superfluous value is refused', () => {
    expect(() => parse('--store')).toThrow('--store needs a value')
    expect(() => parse('--json=yes')).toThrow('--json takes no value')
  })

  test('a command about one name takes one name', () => {
    expect(() => onlyName(parse(), 'explain')).toThrow('needs the NAME')
    expect(() => onlyName(parse('a', 'b'), 'explain')).toThrow('one too many')
  })

  test('a duration has a unit unless it is zero', () => {
    const wait = (text: string) => durationOption(parseArguments(['--wait', text], runOptions), 'wait', anyTime)
    expect(wait('0')).toBe(0)
    expect(wait('1m30s')).toBe(90_000)
    expect(wait('36500d')).toBe(3_153_600_000_000)
    expect(() => wait('5')).toThrow('needs a unit: 5s')
    for (const text of ['5x', '-5s', '', '5 s']) {
      expect(() => wait(text)).toThrow(`--wait is "${text}", not a duration such as 500ms`)
    }
  })

  test('a number is a whole number', () => {
    const bounds = { from: 0, to: 9 }
    expect(numberOption(parse('--fence', '9'), 'fence', bounds)).toBe(9)
    expect(() => numberOption(parse('--fence', '10'), 'fence', bounds)).toThrow('It goes from 0 to 9')
    expect(() => numberOption(parse('--fence', '1.5'), 'fence', bounds)).toThrow('not a whole number')
    expect(() => numberOption(parse('--fence', 'x\u001b[31m'), 'fence', bounds)).toThrow('"x\\u001b[31m"')
  })
})

describe('run', () => {
  test('takes a lock alone by default', () => {
    expect(readRun(['demo'])).toMatchObject({ shared: false, permits: undefined })
    expect(readRun(['demo', '--shared'])).toMatchObject({ shared: true, permits: undefined })
    expect(readRun(['demo', '--permits', '3'])).toMatchObject({ shared: false, permits: 3 })
    expect(() => readRun(['demo', '--permits', 'many'])).toThrow('not a whole number')
    expect(() => readRun(['demo', '--permits', '3', '--shared'])).toThrow('not both')
  })

  test('takes a name, options, and a command with its own options', () => {
    const request = readRun(['demo', '--wait', '5s', '--priority', '-3', '--kill-after', '2s'], ['sh', '-c', 'true'])
    expect(request).toMatchObject({ name: 'demo', command: 'sh', commandArguments: ['-c', 'true'], killAfterMs: 2000 })
    expect(request.acquire).toEqual({ wait: 5000, priority: -3 })
  })

  test('waits as long as it takes by default', () => {
    expect(readRun(['demo']).acquire).toEqual({})
    expect(readRun(['demo', '--no-wait']).acquire).toEqual({ wait: 0 })
    expect(readRun(['demo', '--wait', '0']).acquire).toEqual({ wait: 0 })
  })

  test('a name that begins with a dash stands between two pairs of dashes', () => {
    expect(readRun([], ['-odd', '--', 'echo', '--'])).toMatchObject({ name: '-odd', commandArguments: ['--'] })
  })

  test('says how to write what is missing', () => {
    expect(() => readRun([], ['make', 'test'])).toThrow('leasehold run NAME -- COMMAND')
    expect(() => readRun(['demo', 'other'])).toThrow('run takes one NAME; "other" is one too many')
    expect(() => readRun(['demo'], [])).toThrow('COMMAND after --')
  })
})

test.each([
  [['nightly', 'sh', '-c', 'echo hi'], `leasehold run nightly -- sh -c 'echo hi'\n`],
  [
    ['nightly', '--wait', '5s', 'make', '--quiet', '--help'],
    'leasehold run nightly --wait 5s -- make --quiet --help\n',
  ],
  [['--tll', '5s', 'nightly', 'make'], 'There is no option "--tll". Did you mean --ttl?\n'],
])('run %j without -- is told what was meant', async (words, meant) => {
  const { leasehold, shown } = cliBench()
  expect(await leasehold('run', ...words)).toBe(64)
  expect(shown.errors).toContain(meant)
})

test('a wrong option is told before the store is asked', async () => {
  const { leasehold, context } = cliBench()
  let connections = 0
  context.connect = () => Promise.reject(new Error(`connection ${(connections += 1)}`))
  for (const option of ['--ttl', '--wait', '--max-hold', '--kill-after', '--on-conflict']) {
    expect(await leasehold('run', 'a', option, 'wrong', '--', 'true')).toBe(64)
  }
  expect(connections).toBe(0)
})

test('a word is suggested for a slip, not for something else', () => {
  const words = ['run', 'ls', 'explain', 'evict']
  expect(nearest('rnu', words)).toBe('run')
  expect(nearest('exlpain', words)).toBe('explain')
  expect(nearest('expl', words)).toBe('explain')
  expect(nearest('destroy', words)).toBeUndefined()
  expect(nearest('', words)).toBeUndefined()
})

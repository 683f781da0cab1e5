import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { runCommandLine } from '../../src/cli/command-line.ts'
import type { Surroundings } from '../../src/cli/command.ts'
import { messagesTo } from '../../src/cli/messages.ts'
import { connect } from '../../src/index.ts'

let stores = 0

/** A command line on a store in memory, and what it printed. */
function desk(answer?: string) {
  const store = `memory:cli-${(stores += 1)}`
  const shown = { output: '', errors: '' }
  const surroundings: Surroundings = {
    variables: { LEASEHOLD_STORE: store },
    messages: messagesTo((text) => (shown.errors += text), undefined),
    print: (text) => (shown.output += text),
    connect,
    ask: answer === undefined ? undefined : () => Promise.resolve(answer),
  }
  return { store, shown, leasehold: (...args: string[]) => runCommandLine(args, surroundings) }
}

describe('help', () => {
  test.each(['run', 'ls', 'explain', 'watch', 'evict'])('%s --help shows examples', async (command) => {
    const { leasehold, shown } = desk()
    expect(await leasehold(command, '--help')).toBe(0)
    expect(shown.output).toMatch(new RegExp(`Usage: leasehold ${command}.*Examples:\n  leasehold ${command}`, 's'))
    const long = shown.output.split('\n').filter((line) => line.length > 120)
    expect(long).toEqual([])
  })

  test('the first help lists every command', async () => {
    const { leasehold, shown } = desk()
    expect(await leasehold('--help')).toBe(0)
    expect(shown.output).toMatch(/Commands:\n {2}run .*\n {2}ls .*\n {2}explain .*\n {2}watch .*\n {2}evict .*\n/)
  })

  test('the page about the command line has every command, option and variable that help shows', async () => {
    const page = readFileSync('docs/cli.md', 'utf8')
    const { leasehold, shown } = desk()
    await leasehold('--help')
    const commands = [...shown.output.matchAll(/^ {2}(\w+) {2,}\w/gm)].map(([, command = '']) => command)
    expect(commands).toContain('run')
    for (const command of commands) await leasehold(command, '--help')
    const options = [...shown.output.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, option = '']) => option)
    const variables = shown.output.match(/LEASEHOLD_[A-Z_]+/g) ?? []
    const words = [...commands.map((command) => `leasehold ${command} `), ...options, ...variables]
    expect(words.filter((word) => !page.includes(word))).toEqual([])
  })

  test('a wrong command or option exits with 64 and a suggestion', async () => {
    const { leasehold, shown } = desk()
    expect(await leasehold('rnu')).toBe(64)
    expect(await leasehold('ls', '--jsno')).toBe(64)
    expect(await leasehold()).toBe(64)
    expect(shown.errors).toContain('Did you mean run?')
    expect(shown.errors).toContain('Did you mean --json?')
    expect(shown.output).toBe('')
  })
})

describe('bad input', () => {
  test.each([
    ['an empty name', ['explain', ''], 'not empty'],
    ['a name that is too long', ['explain', 'x'.repeat(513)], '512 are allowed'],
    ['a control character', ['explain', 'a\u001b[31m'], 'control character'],
    ['an unknown store', ['ls', '--store', 'nonsense:x'], 'no store for'],
    ['a namespace with a slash', ['ls', '--namespace', 'a/b'], 'not usable'],
    ['an impossible ttl', ['run', 'a', '--ttl', '-5s', '--', 'true'], 'ttl is "-5s"'],
    ['an unknown strategy', ['run', 'a', '--on-conflict', 'x', '--', 'true'], 'Use one of wait, fail'],
    ['an eviction without a reason', ['evict', 'a', '--yes'], 'needs --reason'],
    ['an eviction nobody can agree to', ['evict', 'a', '--reason', 'x'], 'say --yes'],
  ])('%s exits with 64 and says what is wrong', async (_, args, message) => {
    const { leasehold, shown } = desk()
    expect(await leasehold(...args)).toBe(64)
    expect(shown.errors).toContain(message)
    expect(shown.errors).not.toContain('\u001b')
  })
})

describe('ls', () => {
  test('says on standard error that there is nothing', async () => {
    const { leasehold, shown } = desk()
    expect(await leasehold('ls')).toBe(0)
    expect(shown).toEqual({
      output: '',
      errors: 'leasehold: nobody holds or waits for a lock in the namespace "default"\n',
    })
  })

  test('shows every lock, over as many pages as it takes, and only those of the prefix', async () => {
    const { store, leasehold, shown } = desk()
    const locks = await connect(store)
    const names = Array.from({ length: 1201 }, (_, index) => `a/${index}`)
    await Promise.all([...names, 'b/1'].map((name) => locks.acquire(name)))
    expect(await leasehold('ls', 'a/')).toBe(0)
    const lines = shown.output.trimEnd().split('\n')
    expect(lines[0]).toMatch(/^NAME +HOLDER +HOST +PID +SINCE +LEFT +FENCE +WAITING$/)
    expect(
      lines
        .slice(1)
        .map((line) => line.split(' ')[0])
        .toSorted(),
    ).toEqual(names.toSorted())
    await locks.close()
  })

  test('--json shows one document a lock, without claim ids', async () => {
    const { store, leasehold, shown } = desk()
    const locks = await connect(store)
    const lease = await locks.acquire('a')
    expect(await leasehold('ls', '--json')).toBe(0)
    const document = JSON.parse(shown.output) as object
    expect(document).toMatchObject({
      name: 'a',
      key: 'default/named:a',
      holders: [{ fence: lease.fence, runner: { pid: process.pid } }],
      waiters: [],
    })
    expect(shown.output).not.toContain(lease.toJSON().id)
    await locks.close()
  })

  test('nothing in the store can steer the terminal', async () => {
    const { store, leasehold, shown } = desk()
    const locks = await connect(store, { metadata: { user: '\u001b]0;owned\u0007', command: 'a\nleasehold: granted' } })
    await locks.acquire('a\u202eb')
    for (const args of [['ls'], ['ls', '--json'], ['explain', 'a\u202eb'], ['explain', 'a\u202eb', '--json']]) {
      expect(await leasehold(...args)).toBe(0)
    }
    expect(await leasehold('evict', 'a\u202eb', '--reason', 'x', '--yes')).toBe(0)
    for (const line of [...shown.output.split('\n'), ...shown.errors.split('\n')]) {
      expect(line).not.toMatch(/[\p{Cc}\p{Cf}]/u)
    }
    expect(shown.errors).not.toMatch(/^leasehold: granted/m)
    await locks.close()
  })
})

describe('explain', () => {
  test('says who holds it, who waits, or that it is free', async () => {
    const { store, leasehold, shown } = desk()
    const locks = await connect(store)
    const lease = await locks.acquire('a')
    const waiting = locks.acquire('a')
    await expect.poll(async () => (await locks.inspect('a'))?.waiters.length).toBe(1)
    expect(await leasehold('explain', 'a')).toBe(0)
    expect(shown.output).toMatch(
      new RegExp(`^a .*\n {2}held by runner_.*, fence ${lease.fence}, .*\n {2}1\\. in line: `),
    )
    await lease.release()
    await (await waiting).release()
    shown.output = ''
    expect(await leasehold('explain', 'a')).toBe(0)
    expect(await leasehold('explain', 'a', '--json')).toBe(0)
    expect(shown.output).toBe(
      'a is free: nobody holds it and nobody waits.\n{"name":"a","key":"default/named:a","holders":[],"waiters":[]}\n',
    )
    await locks.close()
  })
})

describe('evict', () => {
  test('takes the lock away and says what that means', async () => {
    const { store, leasehold, shown } = desk()
    const locks = await connect(store)
    const lease = await locks.acquire('a')
    expect(await leasehold('evict', 'a', '--reason', 'stuck', '--yes')).toBe(0)
    expect(shown.output).toBe(`evicted fence ${lease.fence} from "a"\n`)
    expect(shown.errors).toContain('only its fence protects')
    await expect.poll(() => lease.held).toBe(false)
    expect(lease.loss?.reason).toBe('evicted: stuck')
    await locks.close()
  })

  test('exits with 1 if nobody holds it, or nobody with that fence', async () => {
    const { store, leasehold, shown } = desk()
    expect(await leasehold('evict', 'a', '--reason', 'x', '--yes')).toBe(1)
    const locks = await connect(store)
    const lease = await locks.acquire('a')
    expect(await leasehold('evict', 'a', '--fence', '7', '--reason', 'x', '--yes')).toBe(1)
    expect(shown.errors).toContain('nobody holds "a" with fence 7')
    expect(lease.held).toBe(true)
    await locks.close()
  })

  test.each([
    ['y', 0],
    ['', 1],
    ['n', 1],
  ])('asks first: the answer "%s" exits with %i', async (answer, exitCode) => {
    const { store, leasehold, shown } = desk(answer)
    const locks = await connect(store)
    const lease = await locks.acquire('a')
    expect(await leasehold('evict', 'a', '--reason', 'x')).toBe(exitCode)
    expect(shown.errors).toContain(`pid ${process.pid}`)
    await expect.poll(() => lease.held).toBe(exitCode === 1)
    await locks.close()
  })
})

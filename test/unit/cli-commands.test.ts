import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { messagesTo } from '../../src/cli/output/messages.ts'
import { connect } from '../../src/index.ts'
import { cliBench } from './support/cli-bench.ts'
import { folderForTest } from '../support/test-folder.ts'
import { aborted } from '../support/aborted.ts'

const everyCommand = [
  'run',
  'elect',
  'acquire',
  'renew',
  'release',
  'ls',
  'explain',
  'watch',
  'evict',
  'doctor',
  'bench',
  'serve',
  'completion',
  'man',
]

describe('help', () => {
  test.each(everyCommand)('%s --help shows examples', async (command) => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold(command, '--help')).toBe(0)
    expect(shown.output).toMatch(new RegExp(`Usage: leasehold ${command}.*Examples:\n  leasehold ${command}`, 's'))
    const long = shown.output.split('\n').filter((line) => line.length > 120)
    expect(long).toEqual([])
  })

  test('the first help lists every command', async () => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold('--help')).toBe(0)
    const listed = [...shown.output.matchAll(/^ {2}(\w+) {2,}\w/gm)].map(([, command]) => command)
    expect(listed).toEqual(everyCommand)
  })

  test('the page about the command line has every command, option and variable that help shows', async () => {
    const page = readFileSync('docs/cli.md', 'utf8')
    const { leasehold, shown } = cliBench()
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
    const { leasehold, shown } = cliBench()
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
    ['an impossible ttl', ['run', 'a', '--ttl', '-5s', '--', 'true'], '--ttl is "-5s"'],
    ['an unknown strategy', ['run', 'a', '--on-conflict', 'x', '--', 'true'], 'Use one of wait, fail'],
    ['watching a kind of nothing', ['watch', '--kind', 'inode'], 'shows every kind'],
    ['an unknown format', ['ls', '-o', 'xml'], 'Use one of wide, json'],
    ['an unknown order', ['ls', '--sort', 'colour'], 'Use one of name, age'],
    ['an unknown colour', ['ls', '--color', 'pink'], 'Use one of auto, always, never'],
    ['an eviction without a reason', ['evict', 'a', '--yes'], 'needs --reason'],
    ['an eviction nobody can agree to', ['evict', 'a', '--reason', 'x'], 'add --yes'],
  ])('%s exits with 64 and says what is wrong', async (_, args, message) => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold(...args)).toBe(64)
    expect(shown.errors).toContain(message)
    expect(shown.errors).not.toContain('\u001b')
  })
})

describe('ls', () => {
  test('says on standard error that there is nothing', async () => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold('ls')).toBe(0)
    expect(shown).toEqual({
      output: '',
      errors: 'leasehold: nobody holds or waits for a lock in the namespace "default"\n',
    })
  })

  test('shows every lock, over as many pages as it takes, and only those of the prefix', async () => {
    const { store, leasehold, shown } = cliBench()
    const locks = await connect(store)
    const names = Array.from({ length: 1201 }, (_, index) => `a/${index}`)
    await Promise.all([...names, 'b/1'].map((name) => locks.acquire(name)))
    expect(await leasehold('ls', 'a/')).toBe(0)
    const lines = shown.output.trimEnd().split('\n')
    expect(lines[0]).toMatch(/^NAME +KIND +MODE +HOLDER +SERVICE +AGE +LEFT +WAITING$/)
    expect(
      lines
        .slice(1)
        .map((line) => line.split(' ')[0])
        .toSorted(),
    ).toEqual(names.toSorted())
    await locks.close()
  })

  test('--json shows one document a lock, without claim ids', async () => {
    const { store, leasehold, shown } = cliBench()
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
    const { store, leasehold, shown } = cliBench()
    const locks = await connect(store, { metadata: { user: '\u001b]0;owned\u0007', command: 'a\nleasehold: granted' } })
    await locks.acquire('a\u200bb')
    for (const args of [['ls'], ['ls', '--json'], ['explain', 'a\u200bb'], ['explain', 'a\u200bb', '--json']]) {
      expect(await leasehold(...args)).toBe(0)
    }
    expect(await leasehold('evict', 'a\u200bb', '--reason', 'x', '--yes')).toBe(0)
    for (const line of [...shown.output.split('\n'), ...shown.errors.split('\n')]) {
      expect(line).not.toMatch(/[\p{Cc}\p{Cf}]/u)
    }
    expect(shown.errors).not.toMatch(/^leasehold: granted/m)
    await locks.close()
  })
})

describe('explain', () => {
  test('says who holds it, who waits, or that it is free', async () => {
    const { store, leasehold, shown } = cliBench()
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
      'a is free: nobody holds it and nobody waits.\n' +
        '{"kind":"name","name":"a","key":"default/named:a","held":0,"waiting":0,"holders":[],"waiters":[]}\n',
    )
    await locks.close()
  })
})

describe('evict', () => {
  test('takes the lock away and says what that means', async () => {
    const { store, leasehold, shown } = cliBench()
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
    const { store, leasehold, shown } = cliBench()
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
    const { store, leasehold, shown } = cliBench(answer)
    const locks = await connect(store)
    const lease = await locks.acquire('a')
    expect(await leasehold('evict', 'a', '--reason', 'x')).toBe(exitCode)
    expect(shown.errors).toContain(`pid ${process.pid}`)
    await expect.poll(() => lease.held).toBe(exitCode === 1)
    await locks.close()
  })
})

describe('doctor', () => {
  test('tries what locks need, says how long it took, and leaves nothing behind', async () => {
    const { store, leasehold, shown } = cliBench()
    expect(await leasehold('doctor')).toBe(0)
    const lines = shown.output.trimEnd().split('\n')
    expect(lines).toHaveLength(5)
    for (const line of lines) expect(line).toMatch(/^ok {4}\S/)
    await using locks = await connect(store)
    expect((await locks.list()).locks).toEqual([])
  })

  test('says what is wrong, and exits with the code of that', async () => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold('doctor', '--store', 'redis://:secret@127.0.0.1:1', '--json')).toBe(69)
    const text = expect.stringMatching(/^Redis cannot be reached: .*127\.0\.0\.1:1/)
    expect(JSON.parse(shown.output)).toMatchObject({ verdict: 'fail', text })
    await leasehold('doctor', '--store', 'nowhere://:secret@host')
    expect(shown.output + shown.errors).not.toContain('secret')
    expect(await leasehold('doctor', 'name')).toBe(64)
  })

  test('warns of expired leases', async () => {
    const { store, leasehold, shown } = cliBench()
    await using locks = await connect(store)
    const lease = await locks.acquire('a', { ttl: '20ms', heartbeat: 'manual' })
    await aborted(lease.signal)
    await expect.poll(async () => (await locks.stats()).staleLocks).toBe(1)
    expect(await leasehold('doctor')).toBe(0)
    expect(shown.output).toMatch(/WARN {2}in the namespace default there are 1 locks, 0 held, 1 with an expired lease/)
  })
})

describe('bench', () => {
  test('measures four things, and leaves nothing behind', async () => {
    const { store, leasehold, shown } = cliBench()
    expect(await leasehold('bench', '--for', '20ms', '--locks', '3', '--clients', '2', '--json')).toBe(0)
    const lines = shown.output.trimEnd().split('\n')
    const measured = lines.map(
      (line) => JSON.parse(line) as Record<'measure' | 'perSecond' | 'medianMs' | 'p99Ms', unknown>,
    )
    expect(measured.map(({ measure }) => measure)).toEqual(['one', 'many', 'renewal', 'turns'])
    for (const { perSecond, medianMs, p99Ms } of measured) {
      expect(perSecond).toBeGreaterThan(0)
      expect(medianMs).toBeGreaterThan(0)
      expect(p99Ms).toBeGreaterThanOrEqual(medianMs as number)
    }
    await using locks = await connect(store)
    expect((await locks.list()).locks).toEqual([])
  })

  test('shows people a table', async () => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold('bench', '--for', '5ms', '--locks', '2', '--clients', '2')).toBe(0)
    expect(shown.output).toMatch(/a second +median +99 %\none lock, .*\n2 locks at once, .*\n2 leases .*\n2 clients /)
  })

  test('shows the table at a terminal in lines of its own', async () => {
    const { leasehold, context } = cliBench()
    let screen = ''
    context.messages = messagesTo((text) => (screen += text), { columns: 80 })
    context.print = (text) => (screen += text)
    expect(await leasehold('bench', '--for', '5ms', '--locks', '2', '--clients', '2')).toBe(0)
    expect(screen.replaceAll('\u001b', 'ESC')).toMatch(/: done\rESC\[2K +a second +median +99 %\n/)
  })

  test.each([
    [['--for', '0'], /--for/],
    [['--for', '5'], /needs a unit/],
    [['--locks', '0'], /--locks is "0". It goes from 1 to 10000/],
    [['--clients', '1'], /--clients is "1". It goes from 2 to 100/],
    [['--store', 'github:a/b'], /hundreds of comments/],
    [['name'], /takes no NAME/],
  ])('%j is refused', async (args, message) => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold('bench', ...args)).toBe(64)
    expect(shown.errors).toMatch(message)
  })

  test('says what is wrong with a store, and exits with the code of that', async () => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold('bench', '--store', 'redis://127.0.0.1:1')).toBe(69)
    expect(shown.errors).toContain('127.0.0.1:1')
  })
})

describe('acquire, renew and release', () => {
  let folder: string
  beforeEach(() => {
    folder = folderForTest('proof')
  })
  const proof = () => path.join(folder, 'proof')

  test('keep a lock from one command to the next, by a file for its owner alone', async () => {
    const { store, leasehold, shown } = cliBench()
    await using locks = await connect(store)
    expect(await leasehold('acquire', 'a', '--ttl', '10m', '--proof', proof())).toBe(0)
    const [holder] = (await locks.inspect('a'))?.holders ?? []
    expect(shown.output).toBe(`${holder?.fence}\n`)
    expect(shown.errors).toMatch(/^leasehold: "a" is yours until .*\(10 min 0 s\) unless you renew it\n$/)
    expect(statSync(proof()).mode & 0o777).toBe(0o600)
    expect(await locks.tryAcquire('a')).toBeNull()
    expect(await leasehold('renew', '--proof', proof(), '--ttl', '1h')).toBe(0)
    const renewed = (await locks.inspect('a'))?.holders[0]
    expect(renewed).toMatchObject({ fence: holder?.fence, ttlMs: 3_600_000 })
    expect(await leasehold('release', '--proof', proof())).toBe(0)
    expect(await locks.inspect('a')).toBeNull()
    expect(existsSync(proof())).toBe(false)
  })

  test('say that a lock is no longer ours', async () => {
    const { store, leasehold, shown } = cliBench()
    await using locks = await connect(store, { allowForce: true })
    await leasehold('acquire', 'a', '--ttl', '10m', '--proof', proof())
    await locks.evict('a', { reason: 'stuck' })
    expect(await leasehold('renew', '--proof', proof())).toBe(76)
    expect(await leasehold('release', '--proof', proof())).toBe(76)
    expect(shown.errors).toContain('the lock is no longer yours')
    expect(existsSync(proof())).toBe(false)
  })

  test('keep the namespace, and shared locks and permits shared', async () => {
    const { store, leasehold } = cliBench()
    await using locks = await connect(store, { namespace: 'team' })
    await leasehold('acquire', 'a', '--ttl', '10m', '--proof', proof(), '--shared', '--namespace', 'team')
    expect(await locks.readWrite('a').tryRead()).not.toBeNull()
    expect(await locks.tryAcquire('a')).toBeNull()
    expect(await leasehold('release', '--proof', proof())).toBe(0)
  })

  test('leave no lock behind that nobody could release', async () => {
    const { store, leasehold, shown } = cliBench()
    await using locks = await connect(store)
    writeFileSync(proof(), '')
    expect(await leasehold('acquire', 'a', '--ttl', '10m', '--proof', proof())).toBe(64)
    expect(await locks.inspect('a')).toBeNull()
    await locks.acquire('a')
    // Found out before it waits.
    expect(await leasehold('acquire', 'a', '--ttl', '10m', '--proof', path.join(folder, 'no', 'such'))).toBe(64)
    expect(shown.errors).toContain('such" cannot be written there (ENOENT). Choose another FILE.')
    expect(await leasehold('acquire', 'a', '--ttl', '10m', '--proof', `${proof()}2`, '--no-wait')).toBe(75)
    expect(existsSync(`${proof()}2`)).toBe(false)
    expect(shown.output).toBe('')
  })

  test.each([
    ['acquire', 'a', '--proof', 'p'],
    ['acquire', 'a', '--ttl', '1m'],
    ['renew'],
    ['renew', 'a', '--proof', 'p'],
    ['release', '--proof', 'package.json'],
    ['release', '--proof', 'no-such-file'],
    ['release', '--proof', 'README.md'],
  ])('%s %s %s %s is wrong use', async (...words) => {
    const { leasehold } = cliBench()
    expect(await leasehold(...words.filter((word) => word !== undefined))).toBe(64)
  })
})

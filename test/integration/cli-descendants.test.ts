import { spawn, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, realpathSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test as testOf } from 'vitest'
import { ControlGroup } from '../../src/cli/supervise/control-group.ts'
import { connect } from '../../src/index.ts'
import { lockTag } from '../../src/cli/supervise/watchdog.ts'
import { eventually } from '../support/eventually.ts'
import { RedisServer } from '../support/redis-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { gone, hasTerminals, Workshop, type CommandLine } from './cli-process.ts'

/** A workshop for each: they mostly wait, side by side. */
const test = testOf.extend<{ workshop: Workshop }>({
  // oxlint-disable-next-line no-empty-pattern
  workshop: async ({}, use) => {
    const workshop = new Workshop()
    await use(workshop)
    await workshop.close()
  },
})

/** Does not end when it is asked to, and writes to the log for as long as it runs. */
const writer = `sh -c 'trap "" TERM; echo $$ > pid; while :; do echo first >> log; sleep 0.05; done'`

/** Ways in which a command's work ends up outside its process group. */
const shapes = [
  ['under timeout', `timeout 60 ${writer}; true`],
  ['as a job of a shell with job control', `exec bash -c "set -m; . ./work & wait"`],
  ['in a session of its own', `setsid -w ${writer}; true`],
  ['as a daemon whose parent has ended', `(setsid ${writer} &); sleep 600`],
  ['as a job without its environment', `exec bash -c "set -m; env -i PATH=\\"$PATH\\" sh ./work & wait"`],
  ['in a session of its own without its environment', `env -i PATH="$PATH" setsid -w ${writer}; true`],
] as const

/** Whether this user may make control groups. If so, they are out of sight where the other ways are tried. */
const probe = process.platform === 'linux' ? ControlGroup.make('0'.repeat(32)) : undefined
probe?.remove()
const [, groupsAt = ''] =
  probe === undefined ? [] : (/^.* (\S+) \S+ .*- cgroup2 /m.exec(readFileSync('/proc/self/mountinfo', 'utf8')) ?? [])

/** In a group of its own not even that gets away: it has no session, no parent and no environment. */
const inGroups = [
  ['as a daemon without its environment', `(env -i PATH="$PATH" setsid ${writer} &); sleep 600`, true],
] as const
const cases = [
  ...shapes.map(([name, shape]) => [name, shape, false] as const),
  ...(probe === undefined ? [] : inGroups),
]

async function startWriting(workshop: Workshop, shape: string, isInGroup: boolean, ...options: string[]) {
  workshop.write('work', `${writer}\n`)
  const words = ['run', 'demo', ...options, '--', 'sh', '-c', shape]
  const holder =
    isInGroup || probe === undefined ? workshop.leasehold(...words) : workshop.withoutControlGroups(groupsAt, ...words)
  const pid = Number(await workshop.written('pid'))
  await workshop.written('log')
  return { holder, pid }
}

/** What the first holder wrote after the next one had begun. */
async function writtenAfterNext(workshop: Workshop, next: CommandLine): Promise<number> {
  expect((await next.ended()).code).toBe(0)
  const lines = workshop.read('log').split('\n')
  expect(lines.filter((line) => line === 'next')).toHaveLength(1)
  return lines.slice(lines.indexOf('next')).filter((line) => line === 'first').length
}

/** Begins, and stays long enough for a writer that was left behind to show itself. */
const takeOver = ['--', 'sh', '-c', 'echo next >> log; sleep 1']

describe.concurrent.each(cases)('work %s', (_, shape, isInGroup) => {
  test('has ended before the next holder begins when the store is lost', async ({ workshop, onTestFinished }) => {
    const server = await RedisServer.start()
    onTestFinished(() => server.stop())
    const proxy = await TcpProxy.start({ port: server.port })
    onTestFinished(() => proxy.stop())
    const { holder } = await startWriting(
      workshop,
      shape,
      isInGroup,
      '--store',
      `redis://127.0.0.1:${proxy.port}`,
      '--ttl',
      '20s',
    )
    const next = workshop.leasehold('run', 'demo', '--store', server.url, ...takeOver)
    await next.says(/waiting for/)
    await proxy.stop()
    expect(await writtenAfterNext(workshop, next)).toBe(0)
    expect((await holder.ended()).code).toBe(76)
  })

  test('has ended before the next holder begins when leasehold is killed', async ({ workshop }) => {
    const { holder } = await startWriting(workshop, shape, isInGroup, '--ttl', '10m')
    const next = workshop.leasehold('run', 'demo', ...takeOver)
    await next.says(/waiting for/)
    holder.kill('SIGKILL')
    expect(await writtenAfterNext(workshop, next)).toBe(0)
  })

  test('has ended when leasehold exits after an eviction', async ({ workshop }) => {
    const { holder, pid } = await startWriting(workshop, shape, isInGroup, '--kill-after', '300ms')
    expect((await workshop.leasehold('evict', 'demo', '--reason', 'stuck', '--yes').ended()).code).toBe(0)
    expect((await holder.ended()).code).toBe(76)
    await gone(pid)
    const before = workshop.read('log')
    expect((await workshop.leasehold('run', 'demo', '--', 'true').ended()).code).toBe(0)
    expect(workshop.read('log')).toBe(before)
  })
})

test.concurrent('a signal for leasehold reaches work in another session, too', async ({ workshop }) => {
  const polite = `sh -c 'trap "echo heard > heard; exit" TERM; echo $$ > pid; while :; do sleep 0.02; done'`
  const holder = workshop.leasehold('run', 'demo', '--', 'sh', '-c', `setsid -w ${polite}; true`)
  const pid = Number(await workshop.written('pid'))
  holder.kill('SIGTERM')
  expect((await holder.ended()).code).toBe(143)
  await gone(pid)
  expect(workshop.read('heard')).toBe('heard\n')
})

test.concurrent('a command inside a run inside a run gets a signal once', async ({ workshop }) => {
  const counting = 'trap "echo heard >> heard" TERM; echo $$ > pid; until [ -e enough ]; do sleep 0.02; done'
  const outer = workshop.inShell(`exec leasehold run outer -- leasehold run inner -- sh -c '${counting}'`)
  await workshop.written('pid')
  outer.kill('SIGTERM')
  await workshop.written('heard')
  // A second one would come from the outer run, which has sent all of its signals before the inner one can pass on any.
  workshop.write('enough', '')
  expect((await outer.ended()).code).toBe(0)
  expect(workshop.read('heard')).toBe('heard\n')
})

test.concurrent('a run inside a run ends with the outer one', async ({ workshop }) => {
  const inner = `leasehold run inner -- ${writer}`
  const outer = workshop.inShell(
    `exec leasehold run outer --ttl 10m -- sh -c '${inner.replaceAll("'", String.raw`'\''`)}; true'`,
  )
  await workshop.written('log')
  const next = workshop.leasehold('run', 'outer', ...takeOver)
  await next.says(/waiting for/)
  outer.kill('SIGKILL')
  expect(await writtenAfterNext(workshop, next)).toBe(0)
})

test.skipIf(!hasTerminals)('a daemon that was started at a terminal ends with the lease', async ({ workshop }) => {
  workshop.write('work', `${writer}\n`)
  const run = workshop.atTerminal(
    'run',
    'demo',
    '--kill-after',
    '300ms',
    '--',
    'sh',
    '-c',
    '(setsid sh ./work &); sleep 600',
  )
  const pid = Number(await workshop.written('pid'))
  expect((await workshop.leasehold('evict', 'demo', '--reason', 'stuck', '--yes').ended()).code).toBe(0)
  expect((await run.ended()).code).toBe(76)
  await gone(pid)
})

test.concurrent('a daemon of a leader has ended before the next one leads when leasehold is killed', async ({
  workshop,
}) => {
  workshop.write('work', `${writer}\n`)
  const leader = workshop.leasehold(
    'elect',
    'demo',
    '--ttl',
    '10m',
    '--',
    'sh',
    '-c',
    '(setsid sh ./work &); sleep 600',
  )
  await workshop.written('log')
  const next = workshop.leasehold('elect', 'demo', ...takeOver)
  await next.says(/waiting for/)
  leader.kill('SIGKILL')
  expect(await writtenAfterNext(workshop, next)).toBe(0)
})

test.skipIf(probe === undefined)('no control group is left behind, whatever a run leaves', async ({ workshop }) => {
  const groups = () => readdirSync(path.dirname(probe?.directory ?? '')).filter((name) => name.startsWith('leasehold-'))
  await workshop.leasehold('run', 'demo', '--', 'no-such-command').ended()
  const { code, errors } = await workshop
    .leasehold('run', 'demo', '--', 'sh', '-c', 'cat /proc/self/cgroup > group; setsid sleep 600 & echo $! > left')
    .ended()
  expect({ code, errors }).toMatchObject({ code: 0, errors: expect.stringContaining('left processes behind') })
  const left = Number(await workshop.written('left'))
  const mark = /leasehold-[0-9a-f]{32}/.exec(workshop.read('group'))?.[0] ?? ''
  expect(mark).not.toBe('')
  expect(groups()).not.toContain(mark)
  process.kill(left, 'SIGKILL')
  const killed = workshop.leasehold(
    'run',
    'demo',
    '--',
    'sh',
    '-c',
    'cat /proc/self/cgroup > other; echo $$ > pid; sleep 600',
  )
  const pid = Number(await workshop.written('pid'))
  killed.kill('SIGKILL')
  await gone(pid)
  const other = /leasehold-[0-9a-f]{32}/.exec(workshop.read('other'))?.[0] ?? ''
  await eventually(() => !groups().includes(other), 'the end of the group')
})

test('a command does not begin under a lease that was lost while processes of the holder before it ended', async ({
  workshop,
  onTestFinished,
}) => {
  const tag = lockTag(`sqlite:${realpathSync(workshop.directory)}/locks.sqlite`, 'default/named:demo')
  const sweeping = spawn('sh', ['-c', 'read word', 'leasehold-watchdog', tag, '1'], {
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  onTestFinished(() => void sweeping.kill('SIGKILL'))
  const holder = workshop.leasehold('run', 'demo', '--', 'sh', '-c', 'echo first >> log')
  // Not by commands: on a busy machine they take longer than the ten seconds for which a holder waits for the one before it.
  const locks = await connect(`sqlite:${workshop.storeFile}`, { allowForce: true })
  onTestFinished(() => locks.close())
  await eventually(async () => (await locks.evict('demo', { reason: 'a test' })) === 1, 'the lock is held')
  // Long enough for the holder to be told.
  await pause(2000)
  sweeping.stdin.end()
  expect(await holder.ended()).toMatchObject({ code: 76, errors: expect.stringContaining('before the command began') })
  expect(workshop.read('log')).toBe('')
})

test('where there is no /proc, a command is stopped with its process group', async ({ workshop, skip }) => {
  const hide = ['--mount', 'sh', '-c', 'umount -l /proc && exec "$0" "$@"']
  skip(spawnSync('unshare', [...hide, 'true']).status !== 0, 'may not unmount')
  workshop.write('work', `${writer} &\n${writer}\n`)
  const holder = workshop.through('unshare', hide, 'run', 'demo', '--kill-after', '200ms', '--', 'sh', 'work')
  await workshop.written('log')
  expect((await workshop.leasehold('evict', 'demo', '--reason', 'a test', '--yes').ended()).code).toBe(0)
  expect(await holder.ended()).toMatchObject({ code: 76 })
  const { length } = workshop.read('log')
  await pause(300)
  expect(workshop.read('log')).toHaveLength(length)
})

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { connect } from '../../src/index.ts'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'
import { gone, hasTerminals, isRunning, Workshop } from './cli-process.ts'

let workshop: Workshop
beforeEach(() => {
  workshop = new Workshop()
})
afterEach(() => workshop.close())

const leasehold = (...args: string[]) => workshop.leasehold(...args)

/** A holder that runs until it is told to end, and its process. */
async function startHolder(name: string, ...options: string[]) {
  const holder = leasehold('run', name, ...options, '--', 'sh', '-c', 'echo $$ > holder; sleep 600; true')
  return { holder, pid: Number(await workshop.written('holder')) }
}

describe('a command', () => {
  test('runs with the fence in its environment, and its exit code comes through', async () => {
    const print = 'echo $LEASEHOLD_NAME $LEASEHOLD_NAMESPACE $LEASEHOLD_KEY $LEASEHOLD_FENCE; env > env; exit 7'
    const { code, output, errors } = await leasehold('run', 'demo', '--', 'sh', '-c', print).ended()
    expect(code).toBe(7)
    expect(output).toMatch(/^demo default default\/named:demo [1-9]\d+\n$/)
    expect(errors).toBe('')
    expect(workshop.read('env')).toContain(`LEASEHOLD_STORE=sqlite:${workshop.storeFile}\n`)
    expect(await workshop.lock('demo')).toMatchObject({ holders: [], waiters: [] })
  })

  test('has our input', async () => {
    const cat = leasehold('run', 'demo', '--', 'cat')
    cat.type('a line\n')
    cat.endInput()
    expect(await cat.ended()).toMatchObject({ code: 0, output: 'a line\n' })
  })

  test('that a signal ended exits with 128 plus its number', async () => {
    expect((await leasehold('run', 'demo', '--', 'sh', '-c', 'kill -9 $$').ended()).code).toBe(137)
  })

  test('that is missing exits with 127, one that is no program with 126', async () => {
    const missing = await leasehold('run', 'demo', '--', 'no-such-command').ended()
    expect(missing).toMatchObject({ code: 127, errors: 'leasehold: cannot run "no-such-command": not found\n' })
    expect((await leasehold('run', 'demo', '--', '/dev/null').ended()).code).toBe(126)
    expect((await workshop.lock('demo')).holders).toEqual([])
  })

  test('gets the signals that leasehold gets, with all that it started', async () => {
    const { holder, pid } = await startHolder('demo')
    holder.kill('SIGTERM')
    expect((await holder.ended()).code).toBe(143)
    await gone(pid)
    expect((await workshop.lock('demo')).holders).toEqual([])
  })

  test('that handles a signal ends in its own time', async () => {
    const script = 'trap "echo bye; exit 4" INT; echo $$ > holder; while :; do sleep 0.05; done'
    const polite = leasehold('run', 'demo', '--', 'sh', '-c', script)
    await workshop.written('holder')
    polite.kill('SIGINT')
    expect(await polite.ended()).toMatchObject({ code: 4, output: 'bye\n', errors: '' })
  })
})

describe('a lock that is shared', () => {
  const hold = (mark: string, ...options: string[]) =>
    leasehold('run', 'demo', ...options, '--', 'sh', '-c', `echo $LEASEHOLD_FENCE > ${mark}; read line`)

  test('is held by all that say --shared, and waits for those that do not', async () => {
    const [one, two] = [hold('one', '--shared'), hold('two', '--shared')]
    const fences = [await workshop.written('one'), await workshop.written('two')]
    expect(new Set(fences).size).toBe(2)
    expect((await workshop.lock('demo')).holders).toMatchObject([{ mode: 'shared' }, { mode: 'shared' }])
    const alone = leasehold('run', 'demo', '--', 'true')
    await alone.says(/waiting for "demo", next in line; held by .* and 1 more since/)
    // Nobody barges: the next to share waits behind the one that does not.
    const late = leasehold('run', 'demo', '--shared', '--no-wait', '--', 'true')
    expect((await late.ended()).code).toBe(75)
    one.type('done\n')
    two.type('done\n')
    expect((await alone.ended()).code).toBe(0)
  })

  test('with permits is held by so many, and the next waits for a permit', async () => {
    const [one, two] = [hold('one', '--permits', '2'), hold('two', '--permits', '2')]
    await Promise.all([workshop.written('one'), workshop.written('two')])
    expect((await workshop.lock('demo')).holders).toMatchObject([{ limit: 2 }, { limit: 2 }])
    expect((await leasehold('run', 'demo', '--permits', '2', '--no-wait', '--', 'true').ended()).code).toBe(75)
    const third = leasehold('run', 'demo', '--permits', '2', '--', 'true')
    await third.says(/waiting for "demo", next in line/)
    one.type('done\n')
    expect((await third.ended()).code).toBe(0)
    two.type('done\n')
    await Promise.all([one.ended(), two.ended()])
  })

  test('has one number of permits, at least one', async () => {
    hold('one', '--permits', '2')
    await workshop.written('one')
    const other = await leasehold('run', 'demo', '--permits', '3', '--no-wait', '--', 'true').ended()
    expect(other).toMatchObject({ code: 75 })
    expect(other.errors).toMatch(/permits|limit/)
    expect(await leasehold('run', 'demo', '--permits', '0', '--', 'true').ended()).toMatchObject({ code: 64 })
  })
})

describe('contention', () => {
  test('a second one waits visibly, then runs with a higher fence', async () => {
    const first = leasehold('run', 'demo', '--', 'sh', '-c', 'echo $LEASEHOLD_FENCE; touch held; read line')
    await expect.poll(() => first.output).toMatch(/\d\n/)
    const second = leasehold('run', 'demo', '--', 'sh', '-c', 'echo $LEASEHOLD_FENCE')
    const held = `held by runner_\\S+ \\(.*host .*, pid ${first.pid}\\) since \\d\\d:\\d\\d:\\d\\d`
    await second.says(new RegExp(`^leasehold: waiting for "demo", next in line; ${held}`))
    const third = leasehold('run', 'demo', '--', 'true')
    await third.says(/waiting for "demo", 1 ahead in line/)
    first.type('done\n')
    const [one, two] = await Promise.all([first.ended(), second.ended(), third.ended()])
    expect(two.code).toBe(0)
    expect(two.errors).toMatch(/leasehold: granted after [\d.]+ m?s\n$/)
    expect(Number(two.output)).toBeGreaterThan(Number(one.output))
  })

  test('exits with 75 after --wait, and at once with --no-wait', async () => {
    const { pid } = await startHolder('demo')
    const results = await Promise.all([
      leasehold('run', 'demo', '--no-wait', '--', 'touch', 'ran').ended(),
      leasehold('run', 'demo', '--wait', '0', '--', 'touch', 'ran').ended(),
      leasehold('run', 'demo', '--wait', '3s', '--', 'touch', 'ran').ended(),
      leasehold('run', 'demo', '--on-conflict', 'fail', '--', 'touch', 'ran').ended(),
    ])
    expect(results.map(({ code }) => code)).toEqual([75, 75, 75, 75])
    expect((await workshop.lock('demo')).waiters).toEqual([])
    expect(isRunning(pid)).toBe(true)
  })

  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('%s while waiting exits with %i and leaves no claim', async (signal, exitCode) => {
    await startHolder('demo')
    const waiter = leasehold('run', 'demo', '--', 'touch', 'ran')
    await waiter.says(/waiting for/)
    expect((await workshop.lock('demo')).waiters).toHaveLength(1)
    waiter.kill(signal)
    expect((await waiter.ended()).code).toBe(exitCode)
    expect((await workshop.lock('demo')).waiters).toEqual([])
  })

  test('--quiet says nothing about it', async () => {
    const first = leasehold('run', 'demo', '--', 'sh', '-c', 'touch held; read line')
    await expect.poll(async () => (await workshop.lock('demo')).holders.length).toBe(1)
    const second = leasehold('run', 'demo', '--quiet', '--', 'true')
    await expect.poll(async () => (await workshop.lock('demo')).waiters.length).toBe(1)
    first.type('done\n')
    expect(await second.ended()).toMatchObject({ code: 0, errors: '' })
  })
})

describe('a lease in danger', () => {
  test('an eviction stops the command with all that it started, and exits with 76', async () => {
    const { holder, pid } = await startHolder('demo')
    const child = leasehold('evict', 'demo', '--reason', 'stuck', '--yes')
    expect((await child.ended()).code).toBe(0)
    const { code, errors } = await holder.ended()
    expect(code).toBe(76)
    expect(errors).toMatch(/the lease on "demo" was lost: evicted: stuck\. Fence \d+ may be superseded\.\n$/)
    await gone(pid)
  })

  test('a command that does not listen is killed after --kill-after', async () => {
    const script = 'trap "" TERM; echo $$ > holder; while :; do sleep 0.05; done'
    const stubborn = leasehold('run', 'demo', '--kill-after', '300ms', '--', 'sh', '-c', script)
    const pid = Number(await workshop.written('holder'))
    await leasehold('evict', 'demo', '--reason', 'stuck', '--yes').ended()
    expect((await stubborn.ended()).code).toBe(76)
    expect(isRunning(pid)).toBe(false)
  })

  test('a store that does not answer stops the command before the lease ends', async () => {
    const script = 'trap "" TERM; echo $$ > holder; while :; do date +%s%3N >> ticks; sleep 0.02; done'
    // So long that more than a second is left when the command is killed: the machine may stand still meanwhile.
    const holder = leasehold('run', 'demo', '--ttl', '12s', '--', 'sh', '-c', script)
    const pid = Number(await workshop.written('holder'))
    await workshop.written('ticks')
    const other = openDatabase(workshop.storeFile)
    other.exec('BEGIN IMMEDIATE')
    try {
      // Nobody can write any more, so this end of the lease is its last.
      const expiresAt = new Date((await workshop.lock('demo')).holders[0]?.expiresAt ?? 0).getTime()
      await gone(pid)
      const ticks = workshop.read('ticks').trim().split('\n')
      expect(Number(ticks.at(-1))).toBeLessThan(expiresAt)
      const { code, errors } = await holder.ended()
      expect(code).toBe(76)
      expect(errors).toMatch(/could not be renewed.*left\n.*stopping the command.*\n.*killing it\n/)
    } finally {
      other.exec('ROLLBACK')
      other.close()
    }
  })

  test('a holder that is preempted is stopped at once, and makes room', async () => {
    const { holder } = await startHolder('demo', '--priority', 'low')
    const urgent = leasehold('run', 'demo', '--priority', 'high', '--on-conflict', 'preempt', '--', 'echo', 'mine')
    expect(await urgent.ended()).toMatchObject({ code: 0, output: 'mine\n' })
    const { code, errors } = await holder.ended()
    expect(code).toBe(76)
    expect(errors).toContain('asked to leave')
  })

  test('--max-hold stops the command before it is reached', async () => {
    const holder = leasehold('run', 'demo', '--ttl', '10s', '--max-hold', '3s', '--', 'sleep', '600')
    const { code, errors } = await holder.ended()
    expect(code).toBe(76)
    expect(errors).toContain('"demo" was held for as long as --max-hold allows')
    expect(errors).not.toMatch(/not renewed|could not be renewed|was lost/)
  })

  test('--max-hold below the ttl leaves the command its time', async () => {
    const holder = leasehold('run', 'demo', '--max-hold', '20s', '--', 'sh', '-c', 'sleep 1; echo done')
    expect(await holder.ended()).toMatchObject({ code: 0, output: 'done\n' })
  })

  test('a leasehold that was suspended for longer than the lease kills the command when it wakes', async () => {
    const { holder, pid } = await startHolder('demo', '--ttl', '4s')
    holder.kill('SIGSTOP')
    const next = await leasehold('run', 'demo', '--', 'true').ended()
    expect(next.code).toBe(0)
    expect(isRunning(pid)).toBe(true)
    holder.kill('SIGCONT')
    expect((await holder.ended()).code).toBe(76)
    await gone(pid)
  })

  test('a leasehold that is killed takes its command along, and the next one has the lock at once', async () => {
    const { holder, pid } = await startHolder('demo', '--ttl', '10m')
    const next = leasehold('run', 'demo', '--', 'echo', 'mine')
    await next.says(/waiting for/)
    holder.kill('SIGKILL')
    const { code, output, errors } = await next.ended()
    expect({ code, output }).toEqual({ code: 0, output: 'mine\n' })
    expect(errors).toMatch(/the previous holder did not release the lock \(died\): runner_/)
    await gone(pid)
  })
})

describe.skipIf(!hasTerminals)('at a terminal', () => {
  const script = 'trap "exit 9" INT; sleep 600 & echo $! > started; : < /dev/tty && echo ready; wait'

  test('a command keeps the terminal, and Ctrl-C reaches it', async () => {
    const run = workshop.atTerminal('run', 'demo', '--', 'sh', '-c', script)
    await expect.poll(() => run.output).toContain('ready')
    run.type('\u0003')
    expect((await run.ended()).code).toBe(9)
    expect((await workshop.lock('demo')).holders).toEqual([])
    const started = Number(await workshop.written('started'))
    try {
      process.kill(started, 'SIGKILL')
    } catch {
      // The terminal that went away may have ended it.
    }
  })

  test('a command is stopped with all that it started', async () => {
    const run = workshop.atTerminal('run', 'demo', '--', 'sh', '-c', script)
    await expect.poll(() => run.output).toContain('ready')
    expect((await leasehold('evict', 'demo', '--reason', 'stuck', '--yes').ended()).code).toBe(0)
    const { code, output } = await run.ended()
    expect(code).toBe(76)
    expect(output).toContain('was lost: evicted: stuck')
    await gone(Number(await workshop.written('started')))
  })

  test('evict asks, and goes by the answer', async () => {
    const { holder } = await startHolder('demo')
    const evict = workshop.atTerminal('evict', 'demo', '--reason', 'stuck')
    await expect.poll(() => evict.output).toMatch(/held by [^]*take it away\? \[y\/N\] /)
    evict.type('y\r')
    expect((await evict.ended()).code).toBe(0)
    expect((await holder.ended()).code).toBe(76)
  })

  test.each([
    ['Ctrl-C', '\u0003', 130, /\[y\/N\] .*\r?\nleasehold: interrupted: nothing was taken away\r?\n$/],
    ['Ctrl-D', '\u0004', 1, /\[y\/N\] .*\r?\n$/],
  ])('evict is told no by %s, and leaves the line', async (_, key, exitCode, shown) => {
    const { holder } = await startHolder('demo')
    const evict = workshop.atTerminal('evict', 'demo', '--reason', 'stuck')
    await expect.poll(() => evict.output).toContain('[y/N] ')
    evict.type(key)
    expect((await evict.ended()).code).toBe(exitCode)
    await expect.poll(() => evict.output, { timeout: 10_000 }).toMatch(shown)
    holder.kill('SIGTERM')
    expect((await holder.ended()).code).toBe(143)
  })
})

describe('what is left behind', () => {
  test('nothing keeps the process alive after the command', async () => {
    await leasehold('run', 'warm-up', '--', 'true').ended()
    const run = leasehold('run', 'demo', '--', 'sh', '-c', 'date +%s%3N > ended')
    await run.ended()
    expect(Date.now() - Number(await workshop.written('ended'))).toBeLessThan(9000)
  })

  test('processes that a command leaves behind are named, not killed', async () => {
    const script = 'sleep 600 > /dev/null 2>&1 & echo $! > left'
    const { code, errors } = await leasehold('run', 'demo', '--', 'sh', '-c', script).ended()
    const pid = Number(await workshop.written('left'))
    expect(code).toBe(0)
    expect(errors).toContain('left processes behind')
    expect(isRunning(pid)).toBe(true)
    process.kill(pid, 'SIGKILL')
  })
})

test('a lock that was acquired outlives its process, until it is released', async () => {
  const acquired = await leasehold('acquire', 'demo', '--ttl', '10m', '--proof', 'demo.proof').ended()
  expect(acquired.code).toBe(0)
  expect((await leasehold('run', 'demo', '--no-wait', '--', 'true').ended()).code).toBe(75)
  expect((await leasehold('renew', '--proof', 'demo.proof').ended()).code).toBe(0)
  const [holder] = (await workshop.lock('demo')).holders
  expect(`${holder?.fence}\n`).toBe(acquired.output)
  expect((await leasehold('release', '--proof', 'demo.proof').ended()).code).toBe(0)
  expect((await leasehold('run', 'demo', '--no-wait', '--', 'true').ended()).code).toBe(0)
})

describe('an election', () => {
  const candidate = (name: string) =>
    leasehold('elect', 'office', '--', 'sh', '-c', `echo $LEASEHOLD_FENCE > ${name}; sleep 600; true`)

  test('has one leader, and the next one when it was deposed, which stands again', async () => {
    const one = candidate('one')
    const first = Number(await workshop.written('one'))
    const other = candidate('other')
    await other.says(/waiting for "leader:office", next in line/)
    expect((await leasehold('evict', 'leader:office', '--reason', 'stuck', '--yes').ended()).code).toBe(0)
    await one.says(/was lost: evicted: stuck.*\n.*candidate for "leader:office" again\n.*waiting for "leader:office"/)
    expect(Number(await workshop.written('other'))).toBeGreaterThan(first)
    other.kill('SIGKILL')
    await expect.poll(() => Number(workshop.read('one'))).toBeGreaterThan(first)
    one.kill('SIGTERM')
    expect((await one.ended()).code).toBe(143)
  })

  test('is the same for programs, and a candidate that is interrupted no longer stands', async () => {
    await using locks = await connect(`sqlite:${workshop.storeFile}`)
    await locks.elect('office').campaign()
    const one = candidate('one')
    await one.says(/waiting for "leader:office"/)
    one.kill('SIGINT')
    expect((await one.ended()).code).toBe(130)
    expect(workshop.read('one')).toBe('')
    expect((await workshop.lock('leader:office')).waiters).toEqual([])
  })

  test('ends with the command that ends by itself, and with its exit code', async () => {
    expect(await leasehold('elect', 'office', '--', 'sh', '-c', 'exit 3').ended()).toMatchObject({
      code: 3,
      errors: '',
    })
    // 76 is also what we say of a lease that was lost.
    expect(await leasehold('elect', 'office', '--', 'sh', '-c', 'exit 76').ended()).toMatchObject({
      code: 76,
      errors: '',
    })
    expect((await leasehold('elect', 'office', '--shared', '--', 'true').ended()).code).toBe(64)
    const { code, errors } = await leasehold('elect', 'office').ended()
    expect({ code, errors }).toMatchObject({ code: 64, errors: expect.stringContaining('elect office -- COMMAND') })
  })
})

test('a store that cannot be opened exits with 69', async () => {
  await leasehold('run', 'demo', '--', 'true').ended()
  const { code, errors } = await leasehold('ls', '--store', `sqlite:${workshop.storeFile}/inside`).ended()
  expect(code).toBe(69)
  expect(errors).toMatch(/^leasehold: /)
})

test('ls shows holders and waiters of other processes', async () => {
  const { holder } = await startHolder('demo')
  const waiter = leasehold('run', 'demo', '--', 'true')
  await waiter.says(/waiting for/)
  const { code, output } = await leasehold('ls').ended()
  expect(code).toBe(0)
  expect(output).toMatch(new RegExp(`^NAME .*\ndemo +name +exclusive +\\S+:${holder.pid} +sh +\\d+s +\\d+s +1\n$`))
})

test('watch shows who holds a lock, whenever that changes, until it is interrupted', async () => {
  // Only who takes a lock makes the store.
  await leasehold('run', 'demo', '--', 'true').ended()
  const watch = leasehold('watch', 'demo')
  await expect.poll(() => watch.output).toMatch(/^\S+ demo: free\n$/)
  const { holder } = await startHolder('demo')
  await expect.poll(() => watch.output).toMatch(/demo: held by runner_.* with fence \d+\n$/)
  holder.kill('SIGTERM')
  await expect.poll(() => watch.output).toMatch(/fence \d+\n\S+ demo: free\n$/)
  watch.kill('SIGINT')
  expect((await watch.ended()).code).toBe(130)
})

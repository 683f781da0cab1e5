import { constants, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { gone, isRunning, Workshop, type CommandLine } from './cli-process.ts'

let workshop: Workshop
beforeEach(() => {
  workshop = new Workshop()
})
afterEach(() => workshop.close())

const leasehold = (...args: string[]) => workshop.leasehold(...args)

describe.each(['SIGUSR1', 'SIGUSR2'] as const)('%s', (signal) => {
  test('is for the command alone, not for what it started', async () => {
    const word = signal.slice(3)
    const child = `sh -c 'trap "echo > child-heard" ${word}; echo > ready; while :; do sleep 0.05; done' &`
    const script = `trap "kill $!; echo heard; exit 4" ${word}; until [ -e ready ]; do sleep 0.01; done; echo > both; wait`
    const holder = leasehold('run', 'demo', '--', 'sh', '-c', `${child} ${script}`)
    await workshop.written('both')
    holder.kill(signal)
    expect(await holder.ended()).toMatchObject({ code: 4, output: 'heard\n' })
    expect(workshop.read('child-heard')).toBe('')
  })

  test('ends nobody who waits, and starts no debugger', async () => {
    const holder = leasehold('run', 'demo', '--', 'sh', '-c', 'echo > held; read line')
    await workshop.written('held')
    const waiter = leasehold('run', 'demo', '--', 'echo', 'my turn')
    await waiter.says(/waiting for "demo"/)
    waiter.kill(signal)
    expect((await workshop.lock('demo')).waiters).toHaveLength(1)
    holder.endInput()
    const { code, output, errors } = await waiter.ended()
    expect({ code, output }).toEqual({ code: 0, output: 'my turn\n' })
    expect(errors).not.toMatch(/debugger/i)
  })
})

describe('where nobody reads what leasehold says', () => {
  /** Starts it with an output that is full, and read only once there is a file called enough, into one called said. */
  async function startUnread(words: string): Promise<CommandLine> {
    const shell = workshop.inShell(
      `{ head -c 1000000 /dev/zero >&2 & leasehold ${words} & echo $! > pid; wait $!; echo $? > code; } 2>&1 |
        { while [ -e leasehold -a ! -e enough ]; do sleep 0.02; done; tr -d '\\0' > said; }`,
    )
    const pid = Number(await workshop.written('pid'))
    onTestFinished(() => void (isRunning(pid) && process.kill(pid, 'SIGKILL')))
    return shell
  }

  /** Whether its standard error refuses what nobody reads. Only Linux tells. */
  function isNonBlocking(pid: number): boolean {
    if (process.platform !== 'linux') return false
    const [, flags = ''] = /^flags:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/fdinfo/2`, 'utf8')) ?? []
    return (Number.parseInt(flags, 8) & constants.O_NONBLOCK) !== 0
  }

  const readOn = () => writeFileSync(path.join(workshop.directory, 'enough'), '')

  test('a command is stopped all the same', async () => {
    const stubborn = 'trap "" TERM; echo $$ > holder; while :; do sleep 0.05; done'
    const run = await startUnread(`run demo --kill-after 100ms -- sh -c '${stubborn}'`)
    const pid = Number(await workshop.written('holder'))
    expect((await leasehold('evict', 'demo', '--reason', 'stuck', '--yes').ended()).code).toBe(0)
    await gone(pid)
    readOn()
    await run.ended()
    expect(workshop.read('code')).toBe('76\n')
    expect(workshop.read('said')).toMatch(/stopping the command.*\n.*killing it\n.*was lost: evicted: stuck/)
  })

  test('a server answers all the same', async () => {
    const port = await freePort()
    const server = await startUnread(`serve --port ${port}`)
    const look = () => leasehold('ls', '--store', `http://127.0.0.1:${port}`).ended()
    await expect.poll(async () => (await look()).code).toBe(0)
    const pid = Number(workshop.read('pid'))
    expect((await look()).code).toBe(0)
    // Node touches process.stderr when a connection ends. What else prints to the same pipe must be able to wait.
    expect(isNonBlocking(pid)).toBe(false)
    readOn()
    process.kill(pid, 'SIGTERM')
    await server.ended()
    expect(workshop.read('code')).toBe('0\n')
    expect(workshop.read('said')).toMatch(/serving .*\n.*closing on SIGTERM.*\n.*closed\n$/)
  })
})

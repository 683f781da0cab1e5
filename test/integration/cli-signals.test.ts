import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { gone, Workshop } from './cli-process.ts'

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

test('a command is stopped although nobody reads what is said about it', async () => {
  const stubborn = 'trap "" TERM; head -c 1000000 /dev/zero >&2 & echo $$ > holder; while :; do sleep 0.05; done'
  const run = workshop.inShell(
    `{ leasehold run demo --kill-after 100ms -- sh -c '${stubborn}'; echo $? > code; } 2>&1 |
      { until [ -e enough ]; do sleep 0.02; done; tr -d '\\0' > said; }`,
  )
  const pid = Number(await workshop.written('holder'))
  expect((await leasehold('evict', 'demo', '--reason', 'stuck', '--yes').ended()).code).toBe(0)
  await gone(pid)
  writeFileSync(path.join(workshop.directory, 'enough'), '')
  await run.ended()
  expect(workshop.read('code')).toBe('76\n')
  expect(workshop.read('said')).toMatch(/stopping the command.*\n.*killing it\n.*was lost: evicted: stuck/)
})

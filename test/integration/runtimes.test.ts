/** Bun and Deno: a slice of what scripts/test-runtimes.mjs runs there. */
import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { ClientProcess, endProcessesAfterEach } from '../sqlite/processes.ts'
import { scratch } from '../sqlite/scratch.ts'
import { claimOf } from '../support/claims.ts'

const run = promisify(execFile)
const { file } = scratch()
endProcessesAfterEach()

/** The environment without what Vitest has put there for its own workers. */
const environment = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(VITEST|TEST$|NODE_ENV|NODE_OPTIONS)/.test(name)),
)

describe.each([
  { runtime: 'bun', how: [] },
  { runtime: 'deno', how: ['run', '-A'] },
])('in $runtime', ({ runtime, how }) => {
  let program: string
  beforeAll(async () => {
    const { stdout } = await run(process.execPath, ['scripts/fetch-runtime.mjs', runtime])
    program = stdout.trim()
  })

  const inRuntime = async (args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> => {
    const { stdout } = await run(program, [...how, ...args], { env: { ...environment, ...env } })
    return stdout
  }

  test('memory, SQLite and http keep every promise', async () => {
    const { stdout } = await run(process.execPath, ['scripts/test-runtimes.mjs', runtime, 'slice'], {
      env: environment,
      maxBuffer: 64 * 1024 * 1024,
    })
    const [, passed] = /^ok +\S+ slice: (\d+) passed, 0 failed$/m.exec(stdout) ?? []
    expect(Number(passed), stdout).toBeGreaterThan(500)
  })

  test('a process and one of Node hand a lock in a SQLite file over to each other', async () => {
    const here = await ClientProcess.start(file())
    const there = await ClientProcess.start(file(), program, how)
    const first = claimOf('report', { id: 'first' })
    const second = claimOf('report', { id: 'second' })
    const third = claimOf('report', { id: 'third' })
    expect(await here.claim(first)).toMatchObject({ state: 'held' })
    expect(await there.claim(second)).toMatchObject({ state: 'waiting' })
    expect(await here.claim(third)).toMatchObject({ state: 'waiting' })
    await here.release(first)
    await expect.poll(() => there.heard).toMatchObject([{ id: 'second', news: { state: 'held' } }])
    await there.release(second)
    await expect.poll(() => here.heard).toMatchObject([{ id: 'third', news: { state: 'held' } }])
    expect(await here.release(third)).toMatchObject({ state: 'absent', reason: 'released' })
  })

  test('the command line runs a program under a lock', async () => {
    const state = { LEASEHOLD_STATE_DIR: path.dirname(file()) }
    expect(await inRuntime(['dist/cli/main.js', 'run', 'report', '--', 'echo', 'held'], state)).toBe('held\n')
  })
})

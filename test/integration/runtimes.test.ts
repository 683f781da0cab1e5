/** Bun and Deno: a slice of what scripts/test-runtimes.mjs runs there. */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { expectHandOver } from '../sqlite/hand-over.ts'
import { ClientProcess, endProcessesAfterEach } from '../sqlite/processes.ts'
import { scratch } from '../sqlite/scratch.ts'
import { claimOf } from '../support/claims.ts'

const run = promisify(execFile)
const { file } = scratch()
endProcessesAfterEach()

const withoutFfi = ['run', '--no-prompt', '--allow-read', '--allow-write', '--allow-env', '--allow-sys']

/** The environment without what Vitest has put there for its own workers. */
const environment = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(VITEST|TEST$|NODE_ENV|NODE_OPTIONS)/.test(name)),
)

describe.each([
  { runtime: 'bun', how: [], add: 'bun add ' },
  { runtime: 'deno', how: ['run', '-A'], add: 'deno add npm:' },
])('in $runtime', ({ runtime, how, add }) => {
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

  // Without --allow-ffi Deno does not let us read the machine's clock.
  const ways =
    runtime === 'deno' ? { 'a process': how, 'a process without --allow-ffi': withoutFfi } : { 'a process': how }
  test.each(Object.entries(ways))(
    '%s and one of Node hand a lock in a SQLite file over to each other',
    async (_, way) => {
      await expectHandOver(await ClientProcess.start(file()), await ClientProcess.start(file(), program, way))
    },
  )

  // Deno tells a file's times in whole milliseconds, and the last change in seconds.
  test.each(['Node', runtime])(
    'a file that %s made is no copy to the other, which opens it while it is in use',
    async (by) => {
      type Started = Parameters<typeof ClientProcess.start>
      const node: Started = [file()]
      const other: Started = [file(), program, how]
      const [first, second] = by === 'Node' ? [node, other] : [other, node]
      const maker = await ClientProcess.start(...first)
      const held = claimOf('report', { id: 'held' })
      expect(await maker.claim(held)).toMatchObject({ state: 'held' })
      // The next second of the clock that stamps files: the file has been changed since it was made.
      await expect
        .poll(() => {
          utimesSync(file(), new Date(), new Date())
          const { birthtimeMs, ctimeMs } = statSync(file())
          return Math.floor(ctimeMs / 1000) - Math.floor(birthtimeMs / 1000)
        })
        .toBeGreaterThan(0)
      const again = await ClientProcess.start(...first)
      expect(await again.claim(claimOf('report', { wait: false }))).toMatchObject({ state: 'absent' })
      const opener = await ClientProcess.start(...second)
      expect(await opener.claim(claimOf('report', { wait: false }))).toMatchObject({
        state: 'absent',
        reason: 'refused',
      })
    },
  )

  // Deno shows /proc, which has the boot's id and the offsets of clocks, with --allow-all only.
  const inDeno = runtime === 'deno' ? test : () => {}
  inDeno('a container with a clock of its own takes no lock that is held', async ({ skip }) => {
    const inside = ['--time', '--monotonic', '1000', '--fork', '--kill-child']
    try {
      await run('unshare', [...inside, 'true'])
    } catch {
      skip('unshare needs root and Linux 5.6')
    }
    const way = [...withoutFfi, '--allow-ffi']
    const here = await ClientProcess.start(file(), program, way)
    const there = await ClientProcess.start(file(), 'unshare', [...inside, program, ...way])
    const first = claimOf('report', { id: 'first' })
    const second = claimOf('report', { id: 'second' })
    expect(await here.claim(first)).toMatchObject({ state: 'held' })
    expect(await there.claim(second)).toMatchObject({ state: 'waiting' })
    await here.release(first)
    await expect.poll(() => there.received).toMatchObject([{ id: 'second', notification: { state: 'held' } }])
    expect(await here.claim(first)).toMatchObject({ state: 'waiting' })
  })

  test('a client that is missing, does not fit or lacks a package of its own is told, with the command to install it', async () => {
    const folder = path.dirname(file())
    const install = (name: string, version: string, code: string): void => {
      mkdirSync(path.join(folder, 'node_modules', name), { recursive: true })
      const manifest = { name, version, type: 'module', exports: './index.js' }
      writeFileSync(path.join(folder, 'node_modules', name, 'package.json'), JSON.stringify(manifest))
      writeFileSync(path.join(folder, 'node_modules', name, 'index.js'), code)
    }
    install('ioredis', '4.31.0', 'throw new Error("loaded")')
    install('pg', '8.23.1', 'import "pg-pool"')
    const own = path.join(folder, 'node_modules/leasehold')
    cpSync('dist', path.join(own, 'dist'), { recursive: true })
    cpSync('package.json', path.join(own, 'package.json'))
    writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }')
    const urls = ['mongodb://127.0.0.1:1', 'redis-cluster://127.0.0.1:1', 'postgres://127.0.0.1:1']
    const text = `
      import { connect } from 'leasehold'
      for (const url of ${JSON.stringify(urls)}) await connect(url).catch(({ message }) => console.log(message))`
    writeFileSync(path.join(folder, 'program.js'), text)
    const said = await inRuntime([path.join(folder, 'program.js')])
    expect(said.split('\n')).toEqual([
      `UNAVAILABLE: The mongodb driver needs mongodb ^6.11 or ^7. Run: ${add}mongodb@7`,
      expect.stringContaining(`and ioredis 4.31.0 is installed. Run: ${add}ioredis@6`),
      expect.stringContaining("find package 'pg-pool'"),
      '',
    ])
  })

  test('the command line runs a program under a lock', async () => {
    const state = { LEASEHOLD_STATE_DIR: path.dirname(file()) }
    expect(await inRuntime(['dist/node/cli.js', 'run', 'report', '--', 'echo', 'held'], state)).toBe('held\n')
  })
})

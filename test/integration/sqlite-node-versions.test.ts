/** The oldest `node:sqlite`, which binds values otherwise than those after it. More: scripts/test-node-versions.mjs. */
import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'
import { expectHandOver } from '../sqlite/hand-over.ts'
import { ClientProcess, endProcessesAfterEach } from '../sqlite/processes.ts'
import { scratch } from '../sqlite/scratch.ts'

const run = promisify(execFile)
const oldest = '22.13.0'
const { file } = scratch()
endProcessesAfterEach()

let program: string
beforeAll(async () => {
  const { stdout } = await run(process.execPath, ['scripts/fetch-node.mjs', oldest])
  program = stdout.trim()
})

test('the command line runs a program under a lock on the oldest node:sqlite', async () => {
  const { stdout } = await run(program, ['dist/node/cli.js', 'run', 'report', '--', program, '--version'], {
    env: { ...process.env, LEASEHOLD_STATE_DIR: path.dirname(file()) },
  })
  expect(stdout.trim()).toBe(`v${oldest}`)
})

test('processes of the oldest node:sqlite and of this Node hand a lock over to each other', async () => {
  await expectHandOver(await ClientProcess.start(file()), await ClientProcess.start(file(), program))
})

test('the store keeps every promise on the oldest node:sqlite', async () => {
  const environment = Object.entries(process.env).filter(
    ([name]) => !/^(VITEST|TEST$|NODE_ENV|NODE_OPTIONS)/.test(name),
  )
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'unit']
  const { stdout } = await run(program, [...vitest, 'sqlite-conformance', 'sqlite-shortcut', '--reporter=json'], {
    env: Object.fromEntries(environment),
    maxBuffer: 64 * 1024 * 1024,
  })
  const { success, numPassedTests } = JSON.parse(stdout) as { success: boolean; numPassedTests: number }
  expect(success).toBe(true)
  expect(numPassedTests).toBeGreaterThan(100)
})

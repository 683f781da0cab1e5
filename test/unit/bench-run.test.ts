import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { runBench } from '../../bench/page/run-bench.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'

let folder = ''
beforeEach(() => {
  folder = makeFolder('bench-run')
})
afterEach(() => removeFolder(folder))

const never = new AbortController().signal

/** Runs a program as if it were a bench. */
function run(program: string, limitMs = 60_000, stop = never) {
  const file = path.join(folder, 'bench.mjs')
  writeFileSync(file, program)
  return runBench({ name: 'etcd', words: ['0.2'], limitMs }, stop, file)
}

test('a missed bar is a result', async () => {
  const bars = { lost: { title: 'leases lost', actual: 1, atMost: 0 } }
  const report = `{ name: 'etcd', figures: { share: process.argv[2] }, bars: ${JSON.stringify(bars)} }`
  const found = await run(`console.log('RESULT ' + JSON.stringify(${report})); process.exitCode = 1`)
  expect(found).toMatchObject({ node: process.version, result: { name: 'etcd', figures: { share: '0.2' }, bars } })
})

test('a bench that fails is an error, with what it printed', async () => {
  await expect(run("console.log('no server'); process.exit(3)")).rejects.toThrow(/exit code 3\)\.\nno server/)
})

/** A bench that starts a child, notes its pid and hangs. */
const hanging = (pidFile: string, more = '') => `
  import { spawn } from 'node:child_process'
  import { writeFileSync } from 'node:fs'
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' })
  writeFileSync(${JSON.stringify(pidFile)}, String(child.pid))
  setTimeout(() => process.exit(), 60_000)
  ${more}`

test('a bench that hangs is ended at its limit, and its children with it', async () => {
  const pidFile = path.join(folder, 'pid')
  await expect(run(hanging(pidFile, "process.on('SIGTERM', () => {})"), 5000)).rejects.toThrow('not within 5 s')
  expect(() => process.kill(Number(readFileSync(pidFile, 'utf8')), 0)).toThrow('ESRCH')
})

test('a bench is ended when the run is interrupted', async () => {
  const pidFile = path.join(folder, 'pid')
  const stop = new AbortController()
  const ended = run(hanging(pidFile), 60_000, stop.signal)
  await vi.waitUntil(() => existsSync(pidFile) && readFileSync(pidFile, 'utf8') !== '', { timeout: 30_000 })
  stop.abort(new Error('Ended by SIGINT.'))
  await expect(ended).rejects.toThrow('Ended by SIGINT.')
  expect(() => process.kill(Number(readFileSync(pidFile, 'utf8')), 0)).toThrow('ESRCH')
})

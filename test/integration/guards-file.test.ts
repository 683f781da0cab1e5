/** The system calls of a file guard: a power cut keeps only what was synced. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { fileGuard } from '../../src/guards/index.ts'
import { needProgram } from '../support/debian.ts'
import { eventually } from '../support/eventually.ts'
import { folderForTest } from '../support/test-folder.ts'

const calls = 'fsync,fdatasync,unlink,unlinkat,rename,renameat,renameat2'

/** The calls of this process while `work` runs, one a line. */
async function tracedCalls(trace: string, work: () => Promise<void>): Promise<string[]> {
  const strace = needProgram('strace', ['strace'])
  const options = ['-f', '-y', '-e', `trace=${calls}`, '-o', trace, '-p', String(process.pid)]
  const tracer = spawn(strace, options, { stdio: ['ignore', 'ignore', 'pipe'] })
  onTestFinished(() => void tracer.kill())
  let said = ''
  tracer.stderr.setEncoding('utf8').on('data', (text: string) => (said += text))
  await eventually(() => said.includes('attached'), 'the tracer')
  await work()
  const ended = once(tracer, 'close')
  tracer.kill('SIGINT')
  await ended
  return readFileSync(trace, 'utf8').split('\n')
}

test('a file guard has the fence on disk before it replaces the file', async () => {
  const folder = folderForTest('traced-guard')
  const lines = await tracedCalls(path.join(folder, 'trace'), () =>
    fileGuard(path.join(folder, 'report.txt')).write('written', 118),
  )
  const steps = lines
    .flatMap((line) => /(fsync|fdatasync|unlink|rename)\w*\((.*)/.exec(line)?.slice(1, 3).join(' ') ?? [])
    .map((step) => step.replaceAll(folder, '').replace(/\.[\w-]{36}\.draft/, '.draft'))
  const at = (pattern: RegExp): number => steps.findIndex((step) => pattern.test(step))
  const lastBefore = (end: number, pattern: RegExp): number =>
    steps.slice(0, end).findLastIndex((step) => pattern.test(step))
  const replaced = at(/^rename .*draft.*report/)
  expect(replaced).toBeGreaterThan(0)
  expect(lastBefore(replaced, /^fd?a?t?a?sync .*report\.txt\.draft/)).toBeGreaterThanOrEqual(0)
  const stored = lastBefore(replaced, /^fd?a?t?a?sync .*report\.txt\.fence>/)
  const committed = lastBefore(replaced, /^unlink .*report\.txt\.fence-journal/)
  expect(committed).toBeGreaterThan(stored)
  expect(stored).toBeGreaterThanOrEqual(0)
  // The folder: else the journal may be back after a power cut, and with it the fence before.
  expect(steps.slice(committed, replaced).some((step) => /^fd?a?t?a?sync \d+<>/.test(step))).toBe(true)
  expect(steps.slice(replaced).some((step) => /^fd?a?t?a?sync \d+<>/.test(step))).toBe(true)
})

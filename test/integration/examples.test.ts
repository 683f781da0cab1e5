import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const run = promisify(execFile)
const names = readdirSync('examples').flatMap((file) => (file.endsWith('.ts') ? [file.slice(0, -3)] : []))

/** What an example prints, on which its readers rely. */
const printed: Readonly<Record<string, RegExp>> = {
  checkpoint: /the last offset is 600/,
  compaction: /each of 6 partitions was compacted 1 time/,
  'task-queue': /hung: invoice-1, invoice-3\n.*in the end: invoice-1, invoice-2, invoice-3\n/,
}

test('every example says what it prints', () => {
  expect(names.toSorted()).toEqual(Object.keys(printed).toSorted())
})

test.each(names)('%s runs and does what it says', async (name) => {
  const { stdout, stderr } = await run(process.execPath, [`.build/examples/${name}.js`], { timeout: 60_000 })
  expect(stdout).toMatch(printed[name] ?? /./)
  expect(stderr).toBe('')
})

import { execFileSync } from 'node:child_process'
import { cpSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'

test('leasehold/testing can be imported where vitest is not installed, and its suites say what they need', () => {
  const directory = makeFolder('alone')
  try {
    // Outside of this repository: nothing is found in its node_modules.
    cpSync('dist', path.join(directory, 'dist'), { recursive: true })
    writeFileSync(path.join(directory, 'package.json'), '{ "type": "module" }')
    const script = `
      import { checkHistory, conformance, fakeTime, faulty } from './dist/node/testing.mjs'
      const time = fakeTime()
      const before = time.clock.now()
      await time.advance(5)
      console.log(time.clock.now() - before, typeof checkHistory, typeof faulty)
      try { conformance('mine', {}) } catch (error) { console.log(error.message) }
    `
    const file = path.join(directory, 'alone.js')
    writeFileSync(file, script)
    const printed = execFileSync(process.execPath, [file], { encoding: 'utf8' })
    expect(printed).toBe(
      '5 function function\nUNSUPPORTED: The suites of leasehold/testing need vitest, and to be imported by an ES module. Run: npm install --save-dev vitest\n',
    )
  } finally {
    removeFolder(directory)
  }
})

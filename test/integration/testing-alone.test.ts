import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
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
      '5 function function\nUNSUPPORTED: The suites of leasehold/testing run in Vitest, and must be imported by an ES module. Run: npm install --save-dev vitest\n',
    )
  } finally {
    removeFolder(directory)
  }
})

test('another test runner does not load vitest through leasehold/testing: the two would redefine what each has defined', () => {
  const directory = makeFolder('alone')
  try {
    cpSync('dist', path.join(directory, 'dist'), { recursive: true })
    const vitest = path.join(directory, 'node_modules/vitest')
    mkdirSync(vitest, { recursive: true })
    writeFileSync(path.join(vitest, 'package.json'), '{ "type": "module", "exports": "./index.js" }')
    writeFileSync(path.join(vitest, 'index.js'), `throw new TypeError('Cannot redefine property')`)
    writeFileSync(path.join(directory, 'package.json'), '{ "type": "module" }')
    const file = path.join(directory, 'alone.js')
    writeFileSync(file, `import { fakeTime } from './dist/node/testing.mjs'\nconsole.log(fakeTime().clock.now())`)
    const { VITEST: _, ...env } = process.env
    expect(execFileSync(process.execPath, [file], { encoding: 'utf8', env })).toMatch(/^\d+\n$/)
  } finally {
    removeFolder(directory)
  }
})

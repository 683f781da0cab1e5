import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/index.ts'
import { desk } from './support/desk.ts'

test.each([['run'], ['elect']])('%s that is interrupted just when it is granted starts no command', async (word) => {
  const directory = mkdtempSync(path.join(tmpdir(), 'leasehold-interruption-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const file = path.join(directory, 'started')
  const { leasehold, shown, store, context } = desk()
  const opening = context.connect
  context.connect = async (...where) => {
    const locks = await opening(...where)
    locks.on('acquired', () => process.emit('SIGINT', 'SIGINT'))
    return locks
  }
  expect(await leasehold(word, 'a', '--', 'touch', file)).toBe(130)
  expect(shown.errors).toMatch(/^leasehold: interrupted: "a" /)
  expect(existsSync(file)).toBe(false)
  const locks = await connect(store)
  expect((await locks.list()).locks).toEqual([])
  await locks.close()
})

test('doctor that is interrupted leaves no lock behind', async () => {
  const { leasehold, shown, store, context } = desk()
  const opening = context.connect
  context.connect = async (...where) => {
    const locks = await opening(...where)
    locks.on('contention', () => process.emit('SIGINT', 'SIGINT'))
    return locks
  }
  expect(await leasehold('doctor')).toBe(130)
  expect(shown.errors).toMatch(/\nleasehold: interrupted: no lock is left behind\n$/)
  expect(shown.output).not.toContain('FAIL ')
  await using locks = await connect(store)
  expect((await locks.list()).locks).toEqual([])
})

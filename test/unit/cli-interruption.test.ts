import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../src/index.ts'
import { cliBench } from './support/cli-bench.ts'
import { folderForTest } from '../support/test-folder.ts'

test.each([['run'], ['elect']])('%s that is interrupted just when it is granted starts no command', async (word) => {
  const directory = folderForTest('interruption')
  const file = path.join(directory, 'started')
  const { leasehold, shown, store, context } = cliBench()
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
  const { leasehold, shown, store, context } = cliBench()
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

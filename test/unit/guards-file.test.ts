import { chmodSync, mkdirSync, readdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { beforeEach, expect, test } from 'vitest'
import { fileGuard } from '../../src/guards/index.ts'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'
import { folderForTest } from '../support/test-folder.ts'

const superseded = expect.objectContaining({ code: 'LOST', reason: 'superseded' }) as Error
let folder: string
let file: string

beforeEach(() => {
  folder = folderForTest('guard')
  file = join(folder, 'report.json')
})

test('a file guard lets the same holder write many times and refuses the one it replaced', async () => {
  const guard = fileGuard(file)
  await guard.write('one', 5)
  await guard.write('two', 5)
  await fileGuard(file).write(Buffer.from('three'), 7)
  await expect(guard.write('four', 6)).rejects.toThrow(superseded)
  expect(readFileSync(file, 'utf8')).toBe('three')
})

test('a fence that was raised before a read keeps earlier holders out, and is refused to them', async () => {
  const guard = fileGuard(file)
  await guard.write('one', 5)
  await guard.raise(7)
  await guard.raise(7)
  await expect(guard.write('two', 5)).rejects.toThrow(superseded)
  await expect(guard.raise(6)).rejects.toThrow(superseded)
  expect(readFileSync(file, 'utf8')).toBe('one')
  await guard.write('three', 7)
})

test('of many holders that raise the fence at once, none that was overtaken is told that it succeeded last', async () => {
  const fences = [3, 9, 1, 7, 5, 8, 2]
  const raised = await Promise.allSettled(fences.map((fence) => fileGuard(file).raise(fence)))
  expect(raised[1]).toMatchObject({ status: 'fulfilled' })
  for (const fence of fences.filter((each) => each < 9)) await expect(fileGuard(file).raise(fence)).rejects.toThrow()
})

test('a write raises the fence first: if it cannot replace the file, earlier holders are kept out all the same', async () => {
  mkdirSync(file)
  const guard = fileGuard(file)
  await expect(guard.write('one', 7)).rejects.toThrow()
  rmdirSync(file)
  await expect(guard.write('two', 6)).rejects.toThrow(superseded)
  await guard.write('three', 7)
  expect(readFileSync(file, 'utf8')).toBe('three')
})

test('a file guard leaves nothing beside the file but its fence', async () => {
  const guard = fileGuard(file)
  await guard.write('one', 5)
  await expect(guard.write('two', 4)).rejects.toThrow(superseded)
  expect(readdirSync(folder).toSorted()).toEqual(['report.json', 'report.json.fence'])
})

test('a file guard takes over a file that was there, with its permissions', async () => {
  writeFileSync(file, 'old')
  chmodSync(file, 0o640)
  await fileGuard(file).write('new', 1)
  expect(readFileSync(file, 'utf8')).toBe('new')
  expect(statSync(file).mode & 0o777).toBe(0o640)
})

test('writes of many holders at once leave the content of the highest fence', async () => {
  const fences = [3, 9, 1, 7, 5, 8, 2]
  const writes = await Promise.allSettled(fences.map((fence) => fileGuard(file).write(`by ${fence}`, fence)))
  expect(readFileSync(file, 'utf8')).toBe('by 9')
  for (const write of writes) if (write.status === 'rejected') expect(write.reason).toEqual(superseded)
})

test('a write that was let in and then overtaken is refused before it replaces the file', async () => {
  await fileGuard(file).write('one', 5)
  const other = openDatabase(`${file}.fence`)
  other.exec('begin immediate')
  const late = fileGuard(file).write('two', 5)
  // Long enough to find its fence good and to wait for the turn that another process has.
  expect(await Promise.race([late, pause(100, 'waits')])).toBe('waits')
  other.exec('update fence set seen = 9; commit')
  await expect(late).rejects.toThrow(superseded)
  expect(readFileSync(file, 'utf8')).toBe('one')
  other.close()
})

test('a file guard waits for another process that is writing, and says so when that takes too long', async () => {
  await fileGuard(file).write('one', 1)
  const other = openDatabase(`${file}.fence`)
  other.exec('begin immediate')
  await expect(fileGuard(file, { busyTimeout: 30 }).write('two', 1)).rejects.toThrow(
    expect.objectContaining({ code: 'UNAVAILABLE', reason: 'busy' }) as Error,
  )
  const waiting = fileGuard(file).write('three', 1)
  other.exec('rollback')
  await waiting
  expect(readFileSync(file, 'utf8')).toBe('three')
  other.close()
})

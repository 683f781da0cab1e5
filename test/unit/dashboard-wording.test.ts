import { describe, expect, test } from 'vitest'
import {
  durationText,
  explainCommand,
  leaseLeft,
  lockState,
  metadataText,
  runnerName,
  runnerPlace,
  visible,
} from '../../src/dashboard/page/wording.js'
import { heldClaim, lockOf } from './support/operators-documents.ts'

test.each([
  [-5, '0 s'],
  [59_999, '59 s'],
  [245_000, '4 m 05 s'],
  [7_380_000, '2 h 03 m'],
  [457_200_000, '5 d 07 h'],
])('%i ms are %s', (milliseconds, text) => {
  expect(durationText(milliseconds)).toBe(text)
})

test('characters that steer how text is shown are written out', () => {
  expect(visible('a\u202eb\u0007c\u{e0001}')).toBe('a\\u{202e}b\\u{7}c\\u{e0001}')
  expect(visible('größer <b>1</b> 🔒')).toBe('größer <b>1</b> 🔒')
  expect(metadataText({ deep: ['\u200b'] })).toBe('{"deep":["\\u{200b}"]}')
})

test('a name that looks like one with such characters written out is told from it', () => {
  expect(visible(String.raw`a\u{202e}b`)).toBe(String.raw`a\u{5c}u{202e}b`)
  expect(visible(String.raw`C:\users`)).toBe(String.raw`C:\users`)
})

describe('a runner', () => {
  const runner = { id: 'runner_1700000000000_0a1b2c3d_77', host: 'build-7', pid: 77 }

  test('is known by what it runs, by its own name, or as a process', () => {
    const metadata = { user: 'alice', command: 'make' }
    expect(runnerName({ ...runner, metadata })).toBe('alice: make')
    expect(runnerName({ ...runner, id: 'importer' })).toBe('importer')
    expect(runnerName(runner)).toBe('process 77 on build-7')
    expect(runnerName({ ...runner, metadata: { command: 5, user: {} } })).toBe('process 77 on build-7')
  })

  test('is told from others by where it is, or by its id if its name says that already', () => {
    expect(runnerPlace({ ...runner, id: 'importer' })).toBe('build-7, pid 77')
    expect(runnerPlace(runner)).toBe(runner.id)
  })
})

describe('a lock', () => {
  test.each([
    ['held', 'good', [heldClaim()], []],
    ['shared by 2', 'good', [heldClaim({ mode: 'shared' }), heldClaim({ mode: 'shared', fence: 3 })], []],
    ['1 of 3 permits', 'good', [heldClaim({ mode: 'shared', limit: 3 })], []],
    ['expired', 'bad', [heldClaim({ expired: true })], []],
    ['leaving', 'warn', [heldClaim({ leaving: 'preempted' })], []],
    ['free', 'warn', [], [heldClaim({ fence: 0 })]],
  ] as const)('is shown as %s', (text, tone, holders, waiters) => {
    expect(lockState(lockOf('a', holders, waiters))).toEqual({ text, tone })
  })

  test('has a command that explains it, fit for a shell, if the command line has a name for it', () => {
    const lock = lockOf("it's here")
    expect(explainCommand(lock)).toBe(`leasehold explain --namespace default 'it'\\''s here'`)
    expect(explainCommand(lockOf('-rf'))).toBe('leasehold explain --namespace default -- -rf')
    expect(explainCommand({ ...lock, key: 'default/inode:7', scope: 'inode 7' })).toBeUndefined()
    expect(explainCommand(lockOf('a\u202eb'))).toBeUndefined()
  })
})

test('a lease is marked when it is near its end, and when it is over', () => {
  const claim = heldClaim({ remainingMs: 30_000, ttlMs: 30_000 })
  expect(leaseLeft(claim, 0)).toEqual({ part: 1, text: '30 s left', tone: 'good' })
  expect(leaseLeft(claim, 25_000)).toMatchObject({ text: '5 s left', tone: 'warn' })
  expect(leaseLeft(claim, 30_000)).toEqual({ part: 0, text: 'over', tone: 'bad' })
  expect(leaseLeft({ ...claim, expired: true }, 0)).toMatchObject({ tone: 'bad' })
})

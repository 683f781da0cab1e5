import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { choicesOf, exportsOf, membersOf } from '../docs/declarations.ts'
import { tablesOf, wordsInCode } from '../docs/tables.ts'

const markdown = readFileSync('docs/api.md', 'utf8')
const tables = tablesOf(markdown)
const words = wordsInCode(markdown)

/** By the heading of a table's first column: what that column must name, no more and no less. */
const truth: Record<string, readonly string[]> = {
  member: membersOf('src/api/locks.ts', 'Locks'),
  scope: ['named', 'inode', 'byteRange', 'path', 'issue'],
  option: [
    ...membersOf('src/api/create-locks.ts', 'LocksOptions'),
    ...membersOf('src/api/create-locks.ts', 'ConnectOptions'),
    ...membersOf('src/api/create-locks.ts', 'CreateLocksOptions'),
    ...membersOf('src/api/options.ts', 'AcquireOptions'),
  ],
  '`lease`': choicesOf('src/api/options.ts', 'leasePresets'),
  '`retry`': choicesOf('src/core/time/backoff.ts', 'retryPresets'),
  'part of `retry`': membersOf('src/api/options.ts', 'RetryOptions'),
  '`onConflict`': choicesOf('src/api/options.ts', 'ConflictStrategy'),
  'member of a lease': membersOf('src/api/lease.ts', 'Lease'),
  'member of `LeaseSet`': membersOf('src/api/lease.ts', 'LeaseSet'),
  'member of `ReleaseResult`': membersOf('src/api/lease/release-result.ts', 'ReleaseResult'),
  'member of `ReadWriteLock`': membersOf('src/api/primitives/shared.ts', 'ReadWriteLock'),
  'member of `Election`': membersOf('src/api/primitives/election.ts', 'Election'),
  'option of `elect`': membersOf('src/api/primitives/election.ts', 'ElectionOptions'),
  'option of `once`': membersOf('src/api/primitives/once.ts', 'OnceOptions'),
  'member of `Task`': membersOf('src/api/primitives/task.ts', 'Task'),
  'option of `work`': membersOf('src/api/primitives/work.ts', 'WorkOptions'),
  'member of `WorkLoop`': membersOf('src/api/primitives/work.ts', 'WorkLoop'),
  event: membersOf('src/api/client/events.ts', 'LockEvents'),
  'member of `Statistics`': membersOf('src/api/operators/statistics.ts', 'Statistics'),
  counter: [...readFileSync('src/api/operators/statistics.ts', 'utf8').matchAll(/^ {6}'(lock\.\w+)':/gm)].map(
    ([, name = '']) => name,
  ),
  code: choicesOf('src/core/errors.ts', 'ErrorCode'),
  // What every error of JavaScript has, and ours sets.
  'member of `LeaseholdError`': [...membersOf('src/core/errors.ts', 'LeaseholdError'), 'message', 'cause'],
}

describe('docs/api.md', () => {
  test.each(Object.entries(truth))('has a table "%s" that names what the source has', (heading, names) => {
    expect(names.length).toBeGreaterThan(1)
    expect(tables.get(heading)?.toSorted()).toEqual(names.toSorted())
  })

  test('names everything that the package exports', () => {
    const names = exportsOf('src/index.ts')
    expect(names).toEqual(expect.arrayContaining(['connect', 'Locks', 'LockDriver', 'version']))
    expect(names.filter((name) => !words.has(name))).toEqual([])
  })

  test('names every entry point of the package', () => {
    const { exports } = JSON.parse(readFileSync('package.json', 'utf8')) as { exports: Record<string, unknown> }
    const entries = Object.keys(exports).filter((entry) => entry !== '.' && entry !== './package.json')
    const named = entries.filter((entry) => markdown.includes(`\`leasehold${entry.slice(1)}\``))
    expect(named).toEqual(entries)
  })

  test('says the times of every preset', async () => {
    const { leasePresets } = await import('../../src/index.ts')
    const rows = Object.entries(leasePresets).map(
      ([name, { ttlMs, heartbeatMs }]) => `| \`${name}\` | ${ttlMs / 1000} s | ${heartbeatMs / 1000} s |`,
    )
    expect(rows.filter((row) => !markdown.includes(row))).toEqual([])
  })
})

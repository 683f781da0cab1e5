import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { choicesOf, exportsOf, membersOf } from '../docs/declarations.ts'
import { wordsInCode } from '../docs/tables.ts'

const markdown = readFileSync('docs/coming-from.md', 'utf8')
const counters = [...readFileSync('src/api/operators/statistics.ts', 'utf8').matchAll(/^ {6}'(lock\.\w+)':/gm)]

/** Every name that a second column may use: ours, and the words of the code around them. */
const ours = new Set([
  ...exportsOf('src/index.ts'),
  'connect',
  'mongodb',
  'github',
  'redis',
  'forTask',
  'HELD',
  'LOST',
  'NOT_HELD',
  'SCOPE_MISMATCH',
  'UNAVAILABLE',
  'TIMEOUT',
  'DEADLOCK',
  ...membersOf('src/api/locks.ts', 'Locks').map((name) => `locks.${name}`),
  ...membersOf('src/api/lease.ts', 'Lease').map((name) => `lease.${name}`),
  ...membersOf('src/drivers/github/driver.ts', 'GithubDriver').map((name) => `driver.${name}`),
  ...membersOf('src/api/options.ts', 'AcquireOptions'),
  ...membersOf('src/api/options.ts', 'RetryOptions'),
  ...membersOf('src/api/create-locks.ts', 'LocksOptions'),
  ...membersOf('src/api/create-locks.ts', 'ConnectOptions'),
  ...membersOf('src/drivers/github/options.ts', 'GithubOptions'),
  ...membersOf('src/drivers/github/protocol/task-info.ts', 'TaskWorker'),
  ...membersOf('src/api/lease/release-result.ts', 'ReleaseResult'),
  ...membersOf('src/api/operators/statistics.ts', 'Statistics'),
  ...membersOf('src/api/operators/inspection.ts', 'LockStatus'),
  ...membersOf('src/api/client/events.ts', 'LockEvents'),
  ...membersOf('src/core/errors.ts', 'LeaseholdError'),
  ...membersOf('src/api/primitives/election.ts', 'Election').map((name) => `election.${name}`),
  ...membersOf('src/core/contract/driver.ts', 'Runner'),
  'prefix',
  'collection',
])
/** Words of JavaScript and of examples, and arguments. */
const plain = new Set(['await', 'using', 'null', 'name', 'scope', 'resource', 'taskInfo'])
const values = new Set([
  ...choicesOf('src/api/options.ts', 'leasePresets'),
  ...choicesOf('src/core/time/backoff.ts', 'retryPresets'),
  ...choicesOf('src/api/options.ts', 'ConflictStrategy'),
  'auto',
  'manual',
  'owner',
  '31s',
  '30s',
  '10m',
])

/** The second columns of all tables that have one named Leasehold, by the heading above each. */
function tables(): Map<string, string[]> {
  const found = new Map<string, string[]>()
  let heading = ''
  let isOurs = false
  for (const line of markdown.split('\n')) {
    if (line.startsWith('## ')) heading = line.slice(3)
    const cells = line.startsWith('|') ? line.split('|').map((cell) => cell.trim()) : undefined
    if (cells === undefined) isOurs = false
    else if (cells[2] === 'Leasehold') isOurs = true
    else if (isOurs && cells[2] !== '---') found.set(heading, [...(found.get(heading) ?? []), cells[2] ?? ''])
  }
  return found
}

describe('docs/coming-from.md', () => {
  test('has a table for each of the five systems', () => {
    expect(tables().size).toBe(5)
    for (const [heading, rows] of tables()) expect(rows.length, heading).toBeGreaterThan(8)
  })

  test('names nothing of ours that does not exist', () => {
    const wrong: string[] = []
    for (const [heading, rows] of tables()) {
      for (const [, code = ''] of rows.join('\n').matchAll(/`([^`]+)`/g)) {
        // A store's URL.
        if (/^[\w-]+:(\/\/|[A-Z]|$)/.test(code)) continue
        for (const [, value = ''] of code.matchAll(/'([^']*)'/g))
          if (!values.has(value)) wrong.push(`${heading}: '${value}'`)
        for (const [word] of code.replaceAll(/'[^']*'/g, '').matchAll(/[A-Za-z_][\w.]*/g)) {
          if (!ours.has(word) && !plain.has(word)) wrong.push(`${heading}: ${word}`)
        }
      }
    }
    expect(wrong).toEqual([])
  })

  test('names everything that the five systems have and that people look for', () => {
    const words = wordsInCode(markdown)
    const wanted =
      'cleanupStaleLocks HandleLostToken ExtensionCadence BusyWaitSleepTime UseAdaptiveBackoff FAIL_FAST STEAL_STALE FORCE_ACQUIRE RETRY getLockStatus getMetrics is_locked time_remaining extend acquireLock releaseLock startHeartbeat stopHeartbeat renewHeartbeat getStats stalenessThreshold heartbeatInterval LockToken LockHeld LockExpired LockScopeMismatch start_renewal_task AcquireAsync TryAcquireAsync Expiry heartbeatIntervalMs lockTimeoutMs nodeId workerId try_acquire max_attempts backoff_multiplier'
    expect(wanted.split(' ').filter((name) => !words.has(name))).toEqual([])
  })

  test('names all counters and figures of the statistics that they have', () => {
    const names = counters.map(([, name = '']) => name)
    const named = [...markdown.matchAll(/`(lock\.\w+)`/g)].map(([, name = '']) => name)
    expect(named.length).toBeGreaterThan(5)
    expect(named.filter((name) => !names.includes(name))).toEqual([])
  })
})

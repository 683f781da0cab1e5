import { describe, expect, test } from 'vitest'
import { problemOf, problemsOf } from '../../src/dashboard/page/advice.js'
import { barsPath, linePath, topOf } from '../../src/dashboard/page/chart.js'
import { groupsOf } from '../../src/dashboard/page/queue-groups.js'
import { heldClaim, lockOf, waitOf } from './support/operators-documents.ts'

describe('what needs attention', () => {
  const row = (holders: Parameters<typeof lockOf>[1], waiting = 0, longestWaitMs = 0) => ({
    ...lockOf('stock', holders),
    waiting,
    longestWaitMs,
    services: [],
  })

  test.each([
    ['a lock that nobody waits for for long', row([heldClaim()], 1, 500), undefined],
    [
      'a long queue',
      row([heldClaim({ sinceMs: 90_000 })], 3, 60_000),
      /Held by runner for 1 m 30 s\. 3 claims are queued/,
    ],
    ['a dead holder', row([heldClaim({ expired: true })], 1, 5), /lease of runner is over\. 1 claim is queued/],
    ['a silent holder', row([heldClaim({ lastHeartbeatMs: 20_000, remainingMs: 10_000 })], 1), /silent for 20 s/],
    ['a holder that was asked to leave', row([heldClaim({ leaving: 'a \u202e' })]), /asked to leave: a \\u\{202e\}/],
    ['a lock that nobody has taken yet', row([], 2, 4000), /Nobody holds it\. 2 claims are queued/],
    ['a free lock', row([]), undefined],
  ] as const)('is said of %s', (_, lock, says) => {
    const problem = problemOf(lock)
    if (says === undefined) expect(problem).toBeUndefined()
    else expect(problem?.says).toMatch(says)
  })

  test('has deadlocks first, and their locks not twice', () => {
    const runner = { id: 'importer', host: 'here', pid: 1, metadata: {} }
    const owners = ['p1', 'p2'].map((id) => ({ id, owner: `job-${id}`, runner }))
    const key = 'default/named:stock'
    const cycle = [
      { owner: 'p1', key, scope: 'stock' },
      { owner: 'p2', key: 'default/named:cash', scope: 'cash' },
    ]
    const waits = [waitOf('p1', 'p2', { scope: 'stock', key, circular: true, sinceMs: 61_000 })]
    const found = { owners, waits, cycles: [cycle], truncated: false }
    const problems = problemsOf([row([heldClaim()], 9, 60_000)], found)
    expect(problems).toHaveLength(1)
    expect(problems[0]?.says).toBe("job-p1, job-p2 wait for each other's locks (stock, cash), for 1 m 01 s.")
  })
})

test('neighbours of one kind in a queue are a group, and keep their places', () => {
  const of = (service: string, fence: number) =>
    heldClaim({ fence, runner: { id: 'x', host: 'here', pid: 1, metadata: { service } } })
  const queue = [of('a', 1), of('a', 2), of('b\u202e', 3), of('a', 4)]
  const groups = groupsOf(queue).map(({ name, first, claims }) => [name, first, claims.length])
  expect(groups).toEqual([
    ['a', 1, 2],
    [String.raw`b\u{202e}`, 3, 1],
    ['a', 4, 1],
  ])
})

test('charts have a round top, and gaps where there is no value', () => {
  expect([topOf([]), topOf([3]), topOf([0, 99, undefined])]).toEqual([1, 5, 100])
  expect(linePath([undefined, 0, 10, undefined, 10], 10).match(/M/g)).toHaveLength(2)
  expect(barsPath([0, 5, undefined, 10], 10).match(/M/g)).toHaveLength(2)
  expect(`${linePath([0, Number.MAX_SAFE_INTEGER], 10)}${barsPath([1e300], 10)}`).not.toMatch(/NaN|Infinity|-/)
})

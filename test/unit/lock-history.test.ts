import { expect, test } from 'vitest'
import type { ChangeDocument } from '../../src/dashboard/documents.ts'
import { keptSizeMax, LockHistory } from '../../src/server/operators/lock-history.ts'

function granted(namespace: string, name: string, metadata: Record<string, string> = {}): ChangeDocument {
  return {
    kind: 'granted',
    at: '2026-11-18T12:00:00.000Z',
    namespace,
    scope: name,
    key: `${namespace}/named:${name}`,
    fence: 1,
    runner: { id: 'r', client: 'c', host: 'h', pid: 1, metadata },
  } as unknown as ChangeDocument
}

test('ten thousand names with long names and metadata that come and go are kept within a bound', () => {
  const history = new LockHistory()
  history.record(0, [granted('quiet', 'nightly')])
  const names = Array.from({ length: 10_000 }, (_, index) => `${index}${'n'.repeat(500)}`)
  const changes = names.map((name) => granted('noisy', name, { note: 'm'.repeat(8000) }))
  for (let round = 1; round <= 2; round += 1) history.record(round * 1000, changes)
  const kept = changes.flatMap(({ key }) => history.of('noisy', key))
  const size = kept.reduce((sum, change) => sum + JSON.stringify(change).length, 0)
  expect(size).toBeGreaterThan(keptSizeMax / 2)
  expect(size).toBeLessThanOrEqual(keptSizeMax)
  expect(history.of('quiet', 'quiet/named:nightly')).toHaveLength(1)
  // The latest are those that are there.
  expect(history.of('noisy', changes.at(-1)?.key ?? '')).not.toHaveLength(0)
  expect(history.of('noisy', changes[0]?.key ?? '')).toHaveLength(0)
})

test('as many namespaces cost no more than as many names', () => {
  const timeOf = (namespaceOf: (index: number) => string): number => {
    const history = new LockHistory()
    const startedAt = performance.now()
    for (let round = 0; round < 6; round += 1) {
      const changes = Array.from({ length: 10_000 }, (_, index) =>
        granted(namespaceOf(index + round * 10_000), `job-${index}`),
      )
      history.record(round, changes)
    }
    return performance.now() - startedAt
  }
  const one = timeOf(() => 'all')
  const many = timeOf((index) => `tenant-${index}`)
  // Sorting all namespaces for each lock that goes took a thousand times as long.
  expect(many / one).toBeLessThan(25)
})

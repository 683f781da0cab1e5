import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { openLocks } from '../../src/api/create-locks.ts'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { tour, type TourOptions, type TourReport } from './client/tour.ts'
import { withoutStacks } from './support/short-errors.ts'

withoutStacks()

interface Story {
  /** Everything that any client asked, was answered and was told, in order, and when. */
  readonly lines: readonly string[]
  readonly report: TourReport
}

/** Plays a tour and writes down all that passes between the clients and their store. */
async function storyOf(options: TourOptions): Promise<Story> {
  const lines: string[] = []
  const report = await tour({
    ...options,
    openLocks: (given) =>
      openLocks({ ...given, driver: overheard(given.driver, () => given.environment?.now() ?? 0, lines) }),
  })
  return { lines, report }
}

function overheard(driver: LockDriver, now: () => number, lines: string[]): LockDriver {
  const note = (...what: readonly unknown[]): void =>
    void lines.push(`${now()} ${JSON.stringify(what, withoutProcess)}`)
  return {
    name: driver.name,
    supports: driver.supports,
    open: () => driver.open(),
    async send(requests) {
      note('asks', requests)
      const statuses = await driver.send(requests)
      note('hears', statuses)
      return statuses
    },
    list: (query) => driver.list(query),
    listen: (received) =>
      driver.listen?.((...notification) => {
        note('is told', notification)
        received(...notification)
      }) ?? { [Symbol.dispose]: () => {} },
    close: () => driver.close(),
  }
}

/** Who runs the test is the same and yet has another name each time. */
function withoutProcess(name: string, value: unknown): unknown {
  return name === 'runner' ? undefined : value instanceof Error ? value.message : value
}

describe('the same seed tells the same story, word for word:', () => {
  test.each<[string, TourOptions]>([
    ['in a storm', { seed: 7, weather: 'storm' }],
    ['with heartbeat threads', { seed: 11, weather: 'gale', about: 'renewals', threads: true }],
    ['by swapping documents', { seed: 3, weather: 'storm', store: 'documents' }],
    ['handing off', { seed: 5, weather: 'storm', about: 'hand-offs' }],
    ['by web locks', { seed: 9, weather: 'storm', about: 'web locks' }],
  ])('%s', { timeout: 60_000 }, async (_where, options) => {
    const first = await storyOf(options)
    const second = await storyOf(options)
    expect(first.lines.length, 'a story without words shows nothing').toBeGreaterThan(100)
    expect(second.lines.find((line, at) => line !== first.lines[at])).toBeUndefined()
    expect(hashOf(second)).toBe(hashOf(first))
  })

  test('and another seed another', { timeout: 60_000 }, async () => {
    const [one, other] = [await storyOf({ seed: 1, weather: 'storm' }), await storyOf({ seed: 2, weather: 'storm' })]
    expect(hashOf(one)).not.toBe(hashOf(other))
  })
})

function hashOf({ lines, report }: Story): string {
  return createHash('sha256').update(lines.join('\n')).update(JSON.stringify(report)).digest('hex')
}

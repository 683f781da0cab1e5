import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createLocks, type Logger } from '../../src/index.ts'
import { memory } from '../../src/drivers/memory/driver.ts'

const unhandled: unknown[] = []
const note = (reason: unknown): void => void unhandled.push(reason)

/** Until Node would have told of a rejection that nobody handles. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await nextTurn()
}

beforeEach(() => {
  unhandled.length = 0
  process.on('unhandledRejection', note)
})
afterEach(() => void process.off('unhandledRejection', note))

/** Somebody else's function, broken in one way or another. */
const broken: readonly [string, () => unknown][] = [
  [
    'throws',
    () => {
      throw new Error('broken')
    },
  ],
  ['rejects', () => Promise.reject(new Error('broken'))],
  ['rejects later', () => turns().then(() => Promise.reject(new Error('broken')))],
  [
    'gives something like a promise',
    // oxlint-disable-next-line unicorn/no-thenable -- that is what is tried
    () => ({ then: (_: unknown, reject: (error: Error) => void) => reject(new Error('broken')) }),
  ],
]

describe.each(broken)('what %s', (_how, fails) => {
  test('as a listener is told to the logger and harms nobody', async () => {
    const warnings: string[] = []
    const logger: Logger = { debug() {}, info() {}, warn: (message) => void warnings.push(message) }
    const locks = await createLocks({ driver: memory(), logger })
    const received: string[] = []
    locks.on('acquired', fails)
    locks.on('acquired', ({ scope }) => received.push(scope))
    await locks.run('a', async () => {})
    await turns()
    await turns()
    await locks.close()
    expect([received, warnings]).toEqual([['a'], [expect.stringContaining('broken')]])
    expect(unhandled).toEqual([])
  })

  test('as a callback of an election is told to the logger and harms nobody', async () => {
    const warnings: string[] = []
    const logger: Logger = { debug() {}, info() {}, warn: (message) => void warnings.push(message) }
    const locks = await createLocks({ driver: memory(), logger })
    const election = locks.elect('boss', {
      onElected: () => fails() as undefined,
      onDeposed: () => fails() as undefined,
    })
    await election.campaign()
    await election.resign()
    await turns()
    await turns()
    await locks.close()
    expect(warnings).toHaveLength(2)
    expect(unhandled).toEqual([])
  })

  test('as a logger harms nobody', async () => {
    const logger = { debug: fails, info: fails, warn: fails } as Logger
    const locks = await createLocks({ driver: memory(), logger })
    await locks.run('a', async () => {})
    await locks.close()
    await turns()
    await turns()
    expect(unhandled).toEqual([])
  })
})

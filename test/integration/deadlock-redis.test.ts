/** Deadlock detection on a Redis that others share: it names the keys that it reads. */
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest'
import { connect, type LeaseholdError, type Locks } from '../../src/index.ts'
import { Child } from '../support/child.ts'
import { eventually } from '../support/eventually.ts'
import { RedisServer } from '../support/redis-server.ts'

const server = await RedisServer.start({ settings: { 'enable-debug-command': 'yes' } })
afterAll(() => server.stop())

let clients: Locks[]
beforeEach(async () => {
  await server.cli('FLUSHALL')
  await server.cli('DEBUG', 'POPULATE', '10000', 'foreign', '16')
  clients = await Promise.all(Array.from({ length: 6 }, () => connect(server.url)))
  await server.cli('CONFIG', 'RESETSTAT')
})
afterEach(() => Promise.all(clients.map((locks) => locks.close())))

/** How often the server has carried out a command since the test began. */
async function calls(command: string): Promise<number> {
  const statistics = await server.cli('INFO', 'commandstats')
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(statistics)?.[1] ?? 0)
}

test('owners that wait for each other are found without a scan, in a ring of six', async () => {
  const outcomes = clients.map(async (locks, index) =>
    locks.run(`ring ${index}`, async () => {
      await eventually(async () => (await locks.status(`ring ${(index + 1) % 6}`)).locked, 'the next of the ring')
      await locks.run(`ring ${(index + 1) % 6}`, () => {})
    }),
  )
  const settled = await Promise.allSettled(outcomes)
  const victims = settled.flatMap((outcome) =>
    outcome.status === 'rejected' ? [outcome.reason as LeaseholdError] : [],
  )
  expect(victims.map(({ code, cycle }) => [code, cycle?.length])).toEqual([['DEADLOCK', 6]])
  expect(await calls('scan')).toBe(0)
})

test('two processes that wait for each other are told, without a scan', async () => {
  const stories = [
    ['a', 'b'],
    ['b', 'a'],
  ].map((names) => new Child('primitive-story', ['cross', server.url, ...names]))
  const outcomes = await Promise.all(stories.map((child) => child.line(/DEADLOCK|has both/)))
  const words = outcomes.map((line) => line.replace(/^\d+ /, '')).toSorted()
  expect(words).toEqual(['DEADLOCK a b', 'has both'])
  await Promise.all(stories.map((child) => child.ended()))
  expect(await calls('scan')).toBe(0)
})

test('owners that wait for an owner that gets on look for a deadlock without a scan', async () => {
  const [holder, nested, ...waiters] = clients as [Locks, Locks, ...Locks[]]
  let open = (): void => {}
  const opened = new Promise<void>((resolve) => (open = resolve))
  const holding = holder.run('hot', () => opened)
  await eventually(async () => (await nested.status('hot')).locked, 'the holder')
  const waits = waiters.map((locks) => locks.run('hot', () => {}))
  waits.push(nested.run('mine', () => nested.run('hot', () => {})))
  await eventually(async () => (await holder.status('hot')).waiting === waits.length, 'the queue')
  await server.cli('CONFIG', 'RESETSTAT')
  // The owner of `mine` reads it again and again: somebody might wait for it.
  await eventually(async () => (await calls('evalsha')) >= 3, 'the third read')
  expect(await calls('scan')).toBe(0)
  open()
  await Promise.all([holding, ...waits])
})

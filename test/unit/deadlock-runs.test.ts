import { expect, test } from 'vitest'
import type { Lease, LeaseholdError, Locks } from '../../src/index.ts'
import { seededRandom } from '../../src/testing/random.ts'
import { locksBench, type LocksBench } from './support/bench-of-locks.ts'

const runs = Number(process.env['DEADLOCK_RUNS'] ?? 200)

/** What a body takes: its name says how. */
function take(locks: Locks, name: string, body: (lease: Lease) => Promise<void>): Promise<void> {
  if (name.startsWith('permit')) return locks.semaphore(name, 2).run(body)
  if (name.startsWith('read')) return locks.readWrite(name.slice('read '.length)).runRead(body)
  return locks.run(name, body)
}

/** Bodies inside bodies in several clients, each some hundred milliseconds long. Gives the errors they ended with. */
async function bustle(bench: LocksBench, seed: number, ordered: boolean): Promise<LeaseholdError[]> {
  const random = seededRandom(seed)
  const names = ['a', 'b', 'permit c', 'read d', 'd']
  const errors: LeaseholdError[] = []
  const sleep = (milliseconds: number) =>
    new Promise<void>((resolve) => void bench.environment.timer(milliseconds, resolve))
  const nest = async (locks: Locks, left: readonly string[]): Promise<void> => {
    const [name, ...rest] = left
    await sleep(random() * 300)
    if (name !== undefined) await take(locks, name, () => nest(locks, rest))
  }
  const work = async (locks: Locks): Promise<void> => {
    for (let turn = 0; turn < 3; turn += 1) {
      const chosen = names.filter(() => random() < 0.5)
      // To read what one writes, or the other way round, would be to wait for oneself.
      const wanted = chosen.includes('d') ? chosen.filter((name) => name !== 'read d') : chosen
      const order = ordered ? wanted : wanted.toSorted(() => random() - 0.5)
      await nest(locks, order).catch((error: unknown) => void errors.push(error as LeaseholdError))
    }
  }
  const clients = await Promise.all([bench.client(), bench.client(), bench.client()])
  const done = Promise.all(clients.flatMap((locks) => [work(locks), work(locks)])).then(() => 'done')
  for (let rounds = 0; rounds < 100; rounds += 1) {
    await bench.advance(1000)
    if ((await Promise.race([done, Promise.resolve('busy')])) === 'done') return errors
  }
  throw new Error(`seed ${seed}: somebody waits for ever`)
}

test(`${runs} times many bodies that take in one order are never told of a deadlock`, async () => {
  for (let seed = 1; seed <= runs; seed += 1) expect(await bustle(locksBench(), seed, true)).toEqual([])
})

test(`${runs} times many bodies that take in any order all come to an end`, async () => {
  let deadlocks = 0
  for (let seed = 1; seed <= runs; seed += 1) {
    const errors = await bustle(locksBench(), seed, false)
    deadlocks += errors.length
    expect(errors.filter(({ code }) => code !== 'DEADLOCK')).toEqual([])
  }
  expect(deadlocks).toBeGreaterThan(runs / 10)
})

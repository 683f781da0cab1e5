/** Deadlocks over session locks: PostgreSQL sees none of them, as sessions only try, so the clients publish who waits for whom. */
import { afterAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { createLocks, type Lease, type Locks, type LocksOptions } from '../../src/index.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory/driver.ts'
import { PostgresServer, freshSchema } from '../support/postgres-server.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

let schema = ''
beforeEach(() => {
  schema = freshSchema('deadlock')
})

async function client(options: LocksOptions = {}): Promise<Locks> {
  const locks = await createLocks({ driver: postgresAdvisory(server.url, { schema }), ...options })
  onTestFinished(() => locks.close())
  return locks
}

const published = (): Promise<unknown> => server.sql(`select id from ${schema}.advisory_waits`)

/** What became of a wait: its lease's fence, or the code of its error. */
async function outcome(wait: Promise<Lease>, also: () => Promise<unknown>): Promise<string> {
  try {
    await (await wait).release()
    return 'granted'
  } catch (error) {
    return (error as { readonly code: string }).code
  } finally {
    await also()
  }
}

describe('over session locks of PostgreSQL', () => {
  test('of two clients that take two locks in opposite order one is told DEADLOCK, and the other goes on', async () => {
    const [one, two] = [await client(), await client()]
    const [first, second] = [await one.acquire('a', { owner: 'one' }), await two.acquire('b', { owner: 'two' })]
    const outcomes = await Promise.all([
      outcome(one.acquire('b', { owner: 'one', wait: '20s' }), () => first.release()),
      outcome(two.acquire('a', { owner: 'two', wait: '20s' }), () => second.release()),
    ])
    expect(outcomes.toSorted()).toEqual(['DEADLOCK', 'granted'])
    await expect.poll(published).toEqual([])
  })

  test('two owners of one client, which are one session to the server, are found as well', async () => {
    const locks = await client()
    const [first, second] = [await locks.acquire('a', { owner: 'one' }), await locks.acquire('b', { owner: 'two' })]
    const outcomes = await Promise.all([
      outcome(locks.acquire('b', { owner: 'one', wait: '20s' }), () => first.release()),
      outcome(locks.acquire('a', { owner: 'two', wait: '20s' }), () => second.release()),
    ])
    expect(outcomes.toSorted()).toEqual(['DEADLOCK', 'granted'])
  })

  test('a cycle of three bodies with readers and a writer is found, and the error names it', async () => {
    const clients = [await client(), await client(), await client()]
    const errors: unknown[] = []
    let entered = 0
    const take = ['write', 'read', 'write'] as const
    await Promise.all(
      clients.map((locks, index) => {
        const next = (index + 1) % clients.length
        return locks
          .run(`rw-${index}`, async () => {
            entered += 1
            await expect.poll(() => entered).toBe(clients.length)
            const sharing = locks.readWrite(`rw-${next}`, { wait: '20s' })
            await (await sharing[take[next] ?? 'write']()).release()
          })
          .catch((error: unknown) => errors.push(error))
      }),
    )
    expect(errors).toMatchObject([{ code: 'DEADLOCK', cycle: { length: 3 } }])
  })

  test('waits that form no cycle are told of none, also if each ends in a timeout just as another begins', async () => {
    const [one, two] = [await client(), await client()]
    const [first, second] = [await one.acquire('a', { owner: 'one' }), await two.acquire('b', { owner: 'two' })]
    // By turns: at no time do both wait.
    for (let turn = 0; turn < 3; turn += 1) {
      const wait = '900ms'
      expect(await outcome(one.acquire('b', { owner: 'one', wait }), async () => {})).toBe('TIMEOUT')
      expect(await outcome(two.acquire('a', { owner: 'two', wait }), async () => {})).toBe('TIMEOUT')
    }
    await Promise.all([first.release(), second.release()])
  })

  test('an owner that holds nothing else, and a short wait, write nothing', async () => {
    const [one, two] = [await client(), await client()]
    const first = await one.acquire('a', { owner: 'one' })
    await expect(two.acquire('a', { owner: 'two', wait: '1500ms' })).rejects.toMatchObject({ code: 'TIMEOUT' })
    await two.acquire('b', { owner: 'two' })
    await expect(two.acquire('a', { owner: 'two', wait: '200ms' })).rejects.toMatchObject({ code: 'TIMEOUT' })
    await first.release()
    const written = `select n_tup_ins::integer as rows from pg_stat_user_tables
                      where relname = 'advisory_waits' and schemaname = '${schema}'`
    // A session reports what it has written a second later at the most.
    await new Promise((resolve) => void setTimeout(resolve, 1200))
    expect(await server.sql(written)).toEqual([{ rows: 0 }])
  })

  test('with deadlockDetection: false no client looks for deadlocks', async () => {
    const options = { deadlockDetection: false }
    const [one, two] = [await client(options), await client(options)]
    const [first, second] = [await one.acquire('a', { owner: 'one' }), await two.acquire('b', { owner: 'two' })]
    const wait = '3s'
    const outcomes = await Promise.all([
      outcome(one.acquire('b', { owner: 'one', wait }), async () => {}),
      outcome(two.acquire('a', { owner: 'two', wait }), async () => {}),
    ])
    expect(outcomes).toEqual(['TIMEOUT', 'TIMEOUT'])
    await Promise.all([first.release(), second.release()])
  })
})

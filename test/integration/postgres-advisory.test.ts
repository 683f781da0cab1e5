import { randomBytes } from 'node:crypto'
import { afterAll } from 'vitest'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory.ts'
import { conformance, type Harness } from '../../src/testing/index.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { realTimeBench } from '../support/real-time-bench.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

const harness: Harness = {
  // In real time: a machine that stands still for less than the tolerance does not turn an outcome.
  tickMs: 1000,
  toleranceMs: 490,
  async open() {
    const schema = `bench_${randomBytes(6).toString('hex')}`
    return realTimeBench(
      () => postgresAdvisory(server.url, { schema }),
      () => server.sql(`drop schema ${schema} cascade`),
    )
  },
  // A session's locks end with it, only it can give them back, and nothing of them is written down.
  except: [
    'a claim outlives the driver that made it, until its ttl is over',
    'the id alone ends a claim: another driver may release it',
    'who takes over an expired lock is told whose it was',
    'a claim is listed as it was asked for',
    "times are of the store's clock and fit its now",
  ],
}

conformance('postgres-advisory', harness)

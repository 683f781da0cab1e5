import postgresJs from 'postgres'
import { afterAll } from 'vitest'
import { conformance, modelTest } from '../../src/testing/index.ts'
import { PgBouncer } from '../support/pgbouncer.ts'
import { postgresHarness } from '../support/postgres-harness.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { isLong, rounds } from '../support/extent.ts'

const server = await PostgresServer.start()
const bouncer = await PgBouncer.start(server.port, 'transaction')
afterAll(async () => {
  await bouncer.stop()
  await server.destroy()
})

const direct = postgresHarness(server)
conformance('postgres', direct)
modelTest('postgres', direct, { runs: rounds(120, 500), timeLimitMs: 60_000 })
// As with thousands of waiters: each walk looks for those that may move.
const seeking = postgresHarness(server, {}, undefined, 0)
modelTest('postgres with long queues', seeking, { runs: rounds(60, 500), timeLimitMs: 60_000, seed: 2 })

if (isLong) {
  conformance(
    'postgres by postgres.js',
    postgresHarness(server, {}, () => {
      const sql = postgresJs(server.url, { max: 2, onnotice: () => {} })
      return { source: sql, close: () => sql.end({ timeout: 1 }) }
    }),
  )
}

conformance('postgres behind a transaction pooler', {
  // Told not to listen: to find out that nothing is heard takes a driver a second. That it does is shown with the faults.
  ...postgresHarness(server, { listen: false }, () => ({ source: bouncer.url })),
  // Who waits is told to ask; who holds hears of it when it renews.
  except: ['an eviction is pushed to the one evicted', 'who is told to leave hears it'],
})

/** PostgreSQL, one lock at a time: a durable lease beside a bare prepared upsert. */
import { Client } from 'pg'
import { createLocks } from '../src/index.ts'
import { postgres } from '../src/drivers/postgres/driver.ts'
import { PostgresServer } from '../test/support/postgres-server.ts'
import { median, percentile, report } from './report.ts'

const rounds = 15
const turnsPerRound = 120

const server = await PostgresServer.start({ durable: true })
const client = new Client({ connectionString: server.url })
await client.connect()
await client.query('create table bare (key text primary key, id text, expires_at timestamptz)')
const locks = await createLocks({ driver: postgres(server.url) })

let serial = 0
async function upsertMs(): Promise<number> {
  const values = ['orders/42', `holder-${(serial += 1)}`]
  const startedAt = performance.now()
  await client.query({
    name: 'bare',
    text: `insert into bare values ($1, $2, now() + interval '30 s') on conflict (key) do update
           set id = excluded.id, expires_at = excluded.expires_at returning expires_at`,
    values,
  })
  return performance.now() - startedAt
}

const releasesMs: number[] = []
async function acquireMs(): Promise<number> {
  const startedAt = performance.now()
  const lease = await locks.acquire('orders/42', { ttl: '30s' })
  const takenMs = performance.now() - startedAt
  const releasedAt = performance.now()
  await lease.release()
  releasesMs.push(performance.now() - releasedAt)
  return takenMs
}

// Interleaved, so that other load on the machine affects both.
const acquires: number[][] = []
const upserts: number[][] = []
for (let round = 0; round < rounds + 1; round += 1) {
  const [ours, theirs]: [number[], number[]] = [[], []]
  for (let turn = 0; turn < turnsPerRound; turn += 1) {
    ours.push(await acquireMs())
    theirs.push(await upsertMs())
  }
  // The first round warms up.
  if (round === 0) continue
  acquires.push(ours)
  upserts.push(theirs)
}
await locks.close()
await client.end()
await server.destroy()

const p50 = (values: readonly number[]): number => percentile(values, 0.5)
report({
  name: 'postgres-latency',
  figures: {
    acquireP50Ms: p50(acquires.flat()),
    acquireP99Ms: percentile(acquires.flat(), 0.99),
    releaseP50Ms: p50(releasesMs),
    upsertP50Ms: p50(upserts.flat()),
    upsertP99Ms: percentile(upserts.flat(), 0.99),
  },
  bars: {
    timeToBareUpsert: {
      title: 'PostgreSQL, one durable lease at a time: p50 of an acquire',
      peer: {
        name: 'a prepared upsert',
        kind: 'hand-written',
        ours: p50(acquires.flat()),
        theirs: p50(upserts.flat()),
        unit: 'ms',
      },
      actual: median(acquires.map((ours, round) => p50(ours) / p50(upserts[round] ?? []))),
      atMost: 1.25,
    },
  },
})

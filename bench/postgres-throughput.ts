/** PostgreSQL, a hundred locks at once: durable leases and advisory locks beside what people write themselves. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import advisoryLock from 'advisory-lock'
import { Pool } from 'pg'
import { createLocks } from '../src/index.ts'
import type { Request } from '../src/core/contract/driver.ts'
import { postgres } from '../src/drivers/postgres/driver.ts'
import { postgresAdvisory } from '../src/drivers/postgres-advisory/driver.ts'
import { claimOf } from '../test/support/claims.ts'
import { giveToPostgres, PostgresServer, programAsPostgres } from '../test/support/postgres-server.ts'
import { interleave, report } from './report.ts'
import { keys, pairsPerSecond, roundMs } from './support/hundred-locks.ts'
import { makeFolder, removeFolder } from '../test/support/scratch-folder.ts'

const rounds = 9

const server = await PostgresServer.start({ durable: true, settings: { max_connections: 300 } })
const scratch = makeFolder('pgbench')
giveToPostgres(scratch)

// The usual hand-written lock: one upsert to take a lock, one delete to give it back, on a pool of ten.
const pool = new Pool({ connectionString: server.url, max: 10 })
await pool.query('create table naive (key text primary key, id text not null, expires_at timestamptz not null)')
let serial = 0
async function naivePair(key: string): Promise<void> {
  const id = `holder-${(serial += 1)}`
  await pool.query({
    name: 'take',
    text: `insert into naive values ($1, $2, now() + interval '30 s') on conflict (key) do update
           set id = excluded.id, expires_at = excluded.expires_at where naive.expires_at <= now() returning id`,
    values: [key, id],
  })
  await pool.query({ name: 'give', text: 'delete from naive where key = $1 and id = $2', values: [key, id] })
}

const createMutex = advisoryLock.default(server.url)
async function packagePair(key: string): Promise<void> {
  const unlock = await createMutex(key).lock()
  await unlock()
}

/** The same pair of advisory calls by PostgreSQL's own load generator, on as many connections as do best. */
function pgbench(): number {
  const script = path.join(scratch, 'pair.sql')
  writeFileSync(script, 'select pg_try_advisory_lock(:client_id);\nselect pg_advisory_unlock(:client_id);\n')
  const { file, prefix } = programAsPostgres('pgbench')
  const place = ['-h', '127.0.0.1', '-p', String(server.port), '-U', 'postgres', 'postgres']
  const load = ['-n', '-M', 'prepared', '-c', '8', '-j', '2', '-T', String(Math.ceil(roundMs / 1000)), '-f', script]
  const output = execFileSync(file, [...prefix, ...load, ...place], { encoding: 'utf8', cwd: '/', stdio: 'pipe' })
  return Number(/tps = ([\d.]+) \(without/.exec(output)?.[1])
}

const locks = await createLocks({ driver: postgres(server.url) })
const unlogged = await createLocks({ driver: postgres(server.url, { schema: 'unlogged', unlogged: true }) })
const advisory = postgresAdvisory(server.url)
await advisory.open()
const advisoryLocks = await createLocks({ driver: postgresAdvisory(server.url) })

/** Batches as the client makes them, without the client. */
async function advisoryDriverPairs(): Promise<number> {
  const startedAt = performance.now()
  let pairs = 0
  while (performance.now() - startedAt < roundMs) {
    const claims = keys.map((key) => claimOf(`driver/${key}`, { ttlMs: 30_000, wait: false }))
    await advisory.send(claims.map((claim): Request => ({ op: 'claim', claim })))
    await advisory.send(claims.map(({ key, id }): Request => ({ op: 'release', key, id })))
    pairs += keys.length
  }
  return (pairs * 1000) / (performance.now() - startedAt)
}

const contenders = {
  lease: () => pairsPerSecond(async (key) => (await locks.acquire(key, { ttl: '30s' })).release()),
  leaseUnlogged: () => pairsPerSecond(async (key) => (await unlogged.acquire(key, { ttl: '30s' })).release()),
  naiveUpsert: () => pairsPerSecond(naivePair),
  advisoryLockPackage: () => pairsPerSecond(packagePair),
  advisoryDriver: advisoryDriverPairs,
  advisoryClient: () => pairsPerSecond(async (key) => (await advisoryLocks.acquire(key, { ttl: '30s' })).release()),
  pgbenchAdvisory: pgbench,
}
await interleave(1, contenders)
const { medians, ratio } = await interleave(rounds, contenders)

await Promise.all([locks.close(), unlogged.close(), advisory.close(), advisoryLocks.close(), pool.end()])
await server.destroy()
removeFolder(scratch)

const unit = 'pairs/s'
const advisoryLockPeer = { name: 'advisory-lock', kind: 'library', theirs: medians.advisoryLockPackage, unit } as const
report({
  name: 'postgres-throughput',
  figures: Object.fromEntries(Object.entries(medians).map(([name, value]) => [`${name}PairsPerSecond`, value])),
  bars: {
    speedToOneUpsertALock: {
      title: 'PostgreSQL, 100 durable leases at once: pairs a second',
      peer: {
        name: 'an upsert and a delete a lock, pool of ten',
        kind: 'hand-written',
        ours: medians.lease,
        theirs: medians.naiveUpsert,
        unit,
      },
      actual: ratio('lease', 'naiveUpsert'),
      atLeast: 5,
    },
    speedToAdvisoryLockPackage: {
      title: 'PostgreSQL, 100 durable leases at once: pairs a second',
      peer: { ...advisoryLockPeer, ours: medians.lease },
      actual: ratio('lease', 'advisoryLockPackage'),
      atLeast: 50,
    },
    advisorySpeedToPgbench: {
      title: 'PostgreSQL, 100 advisory locks at once, driver alone: pairs a second',
      peer: {
        name: 'pgbench with the same two calls',
        kind: 'hand-written',
        ours: medians.advisoryDriver,
        theirs: medians.pgbenchAdvisory,
        unit,
      },
      actual: ratio('advisoryDriver', 'pgbenchAdvisory'),
      atLeast: 3,
    },
  },
  ratios: {
    advisorySpeedToAdvisoryLockPackage: {
      title: 'PostgreSQL, 100 advisory locks at once: pairs a second',
      peer: { ...advisoryLockPeer, ours: medians.advisoryClient },
      actual: ratio('advisoryClient', 'advisoryLockPackage'),
      better: 'more',
    },
  },
})
// The package keeps connections open and offers no way to close them.
process.exit()

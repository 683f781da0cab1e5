/** MariaDB, a hundred locks at once: durable leases beside a hand-written upsert and delete on a pool of ten. */
import { createPool, type ResultSetHeader } from 'mysql2/promise'
import { createLocks } from '../src/index.ts'
import { mysql } from '../src/drivers/mysql/driver.ts'
import { MariadbServer } from '../test/support/mariadb-server.ts'
import { interleave, percentile, report } from './report.ts'
import { pairsPerSecond } from './support/hundred-locks.ts'

const rounds = 9
const pairsPerRound = 40

const server = await MariadbServer.start({
  'innodb-flush-log-at-trx-commit': '1',
  'innodb-log-file-size': '96M',
  'max-connections': '100',
})

// The usual hand-written lock: one upsert to take a lock, one delete to give it back.
const pool = createPool({ uri: server.database, connectionLimit: 10 })
await pool.query(
  'create table naive (name varchar(190) primary key, id varchar(40) not null, expires_at datetime(3) not null) engine = InnoDB',
)
let serial = 0
async function naivePair(name: string): Promise<void> {
  const id = `holder-${(serial += 1)}`
  const [taken] = await pool.execute<ResultSetHeader>(
    `insert into naive values (?, ?, utc_timestamp(3) + interval 30 second) on duplicate key update
     id = if(expires_at <= utc_timestamp(3), values(id), id),
     expires_at = if(id = values(id), values(expires_at), expires_at)`,
    [name, id],
  )
  if (taken.affectedRows !== 1) throw new Error('Somebody else has the lock')
  await pool.execute('delete from naive where name = ? and id = ?', [name, id])
}

const locks = await createLocks({ driver: mysql(server.database) })
const leasePair = async (name: string): Promise<void> => {
  const lease = await locks.acquire(name, { ttl: '30s' })
  await lease.release()
}

/** The p50 of a pair, one after the other. */
async function pairMs(pair: (name: string) => Promise<void>): Promise<number> {
  const took: number[] = []
  for (let index = 0; index < pairsPerRound; index += 1) {
    const startedAt = performance.now()
    await pair(`one/${index}`)
    took.push(performance.now() - startedAt)
  }
  return percentile(took, 0.5)
}

const atOnce = { lease: () => pairsPerSecond(leasePair), naive: () => pairsPerSecond(naivePair) }
await interleave(1, atOnce)
const throughput = await interleave(rounds, atOnce)
const oneByOne = { lease: () => pairMs(leasePair), naive: () => pairMs(naivePair) }
await interleave(5, oneByOne)
const latency = await interleave(2 * rounds + 1, oneByOne)

await Promise.all([locks.close(), pool.end()])
await server.stop()

const name = 'an upsert and a delete a lock, pool of ten'
report({
  name: 'mysql',
  figures: {
    leasePairsPerSecond: throughput.medians.lease,
    naivePairsPerSecond: throughput.medians.naive,
    leasePairP50Ms: latency.medians.lease,
    naivePairP50Ms: latency.medians.naive,
  },
  bars: {
    speedToOneUpsertALock: {
      title: 'MariaDB, 100 durable leases at once: pairs a second',
      peer: {
        name,
        kind: 'hand-written',
        ours: throughput.medians.lease,
        theirs: throughput.medians.naive,
        unit: 'pairs/s',
      },
      actual: throughput.ratio('lease', 'naive'),
      atLeast: 5,
    },
  },
  ratios: {
    timeToOneUpsert: {
      title: 'MariaDB, one durable lease at a time: p50 of a pair',
      peer: { name, kind: 'hand-written', ours: latency.medians.lease, theirs: latency.medians.naive, unit: 'ms' },
      actual: latency.ratio('lease', 'naive'),
      better: 'less',
    },
  },
})

/** MariaDB alone and behind a server, under the faults that it has, in real time. */
import { afterAll } from 'vitest'
import { mysql } from '../../src/drivers/mysql/driver.ts'
import { alone, behindServers, quorumOf, withThread } from '../composition/compositions.ts'
import { compositionMatrix } from '../composition/matrix.ts'
import type { MakeStore } from '../composition/stores.ts'
import { realTime } from '../composition/time.ts'
import { MariadbServer } from '../support/mariadb-server.ts'

const server = await MariadbServer.start({ 'innodb-flush-log-at-trx-commit': '1' }, { isToRestart: true })
afterAll(() => server.stop())

let tables = 0

const mysqlStore: MakeStore = async () => {
  const table = `composition_${(tables += 1)}`
  const drop = (): Promise<unknown> => server.query(`drop table if exists test.${table}`)
  return {
    url: `${server.database}?table=${table}`,
    driver: () => mysql(server.database, { table, poolSize: 2 }),
    comesBackEmpty: async () => void (await drop()),
    restarts: () => server.restart(),
    endConnections: () => server.endConnections(),
    discard: async () => void (await drop()),
  }
}

const behindServer = behindServers(1)
/** No shorter than the lease, as everywhere. */
const quorum = quorumOf('a quorum', { votesAfterMs: 3000 })

compositionMatrix('mysql', {
  make: mysqlStore,
  time: realTime,
  ttlMs: 3000,
  cells: [
    { composition: alone, fault: 'the store comes back empty', promised: 'fenced' },
    { composition: behindServer, fault: 'the store comes back empty', promised: 'fenced' },
    { composition: alone, fault: 'the store is killed, and comes back with its data', promised: 'exclusive' },
    { composition: alone, fault: 'connections end', promised: 'exclusive' },
    { composition: behindServer, fault: 'connections end', promised: 'exclusive' },
    { composition: withThread, fault: 'connections end', promised: 'exclusive' },
    { composition: quorum, fault: 'the store comes back empty', promised: 'exclusive' },
    { composition: quorum, fault: 'every store comes back empty', promised: 'exclusive' },
    { composition: behindServer, fault: 'the process in between is killed, and comes back', promised: 'exclusive' },
  ],
})

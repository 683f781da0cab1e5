import { afterAll, describe } from 'vitest'
import { lifetimeTest } from '../lifetime/suite.ts'
import { MariadbServer } from '../support/mariadb-server.ts'

const server = await MariadbServer.start({ 'innodb-flush-log-at-trx-commit': '1' })
afterAll(() => server.stop())

describe('nothing survives close', () => {
  lifetimeTest({ title: 'mysql', kinds: ['threaded', 'severed'], url: async () => server.database })
  lifetimeTest({
    title: 'mariadb',
    kinds: ['threaded', 'severed'],
    url: async () => server.database.replace('mysql:', 'mariadb:'),
  })
})

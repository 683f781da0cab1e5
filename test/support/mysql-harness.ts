import type { LockDriver } from '../../src/core/contract/driver.ts'
import { mysql, type MysqlOptions, type MysqlSource } from '../../src/drivers/mysql/driver.ts'
import type { Harness } from '../../src/testing/index.ts'
import type { MariadbServer } from './mariadb-server.ts'

/** A table that begins empty for each bench, with a clock that only the bench moves. The source stays the caller's. */
export function mysqlHarness(source: MysqlSource, server: MariadbServer, options: MysqlOptions): Harness {
  let tables = 0
  return {
    async open() {
      const table = `${options.table ?? 'bench'}_${(tables += 1)}`
      const drivers: LockDriver[] = []
      let time = Date.now()
      return {
        async driver() {
          const driver = mysql(source, { ...options, table, clockForTests: () => time })
          drivers.push(driver)
          await driver.open()
          return driver
        },
        async advance(ms) {
          time += ms
        },
        restart: () => server.restart(),
        empty: async () => void (await server.query(`drop table test.\`${table}\``)),
        async close() {
          await Promise.all(drivers.map((driver) => driver.close()))
        },
      }
    },
  }
}

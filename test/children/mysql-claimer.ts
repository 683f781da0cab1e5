/** Takes and releases shared locks in a table, for ever: `mysql-claimer URL TABLE`. */
import { mysql } from '../../src/drivers/mysql/driver.ts'
import { claim, claimOf, release } from '../support/claims.ts'

const [url = '', table = ''] = process.argv.slice(2)
const driver = mysql(url, { table })
await driver.open()
for (let count = 0; ; count += 1) {
  for (const key of ['shared', 'own']) {
    const wanted = claimOf(key, { mode: 'shared', ttlMs: 600_000 })
    await claim(driver, wanted)
    await release(driver, wanted)
  }
  if (count === 0) console.log('working')
}

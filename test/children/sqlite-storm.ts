/** Takes and releases locks as fast as it can, and prints `KEY FENCE` for each, until it has done its number or is killed. */
import { randomUUID } from 'node:crypto'
import { writeSync } from 'node:fs'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { claimOf } from '../support/claims.ts'

const [file = '', rounds = 'Infinity', keys = '3'] = process.argv.slice(2)
// More processes than cores: some wait long for their turn at the processor.
const driver = sqlite({ file, busyTimeoutMs: 60_000 })
await driver.open()
writeSync(1, 'ready\n')

const granted: string[] = []
for (let round = 0; round < Number(rounds); round += 1) {
  const key = `key-${round % Number(keys)}`
  const id = randomUUID()
  const [status] = await driver.send([{ op: 'claim', claim: claimOf(key, { id, wait: false, ttlMs: 60_000 }) }])
  if (status?.state === 'held') granted.push(`${key} ${status.fence}`)
  else if (status?.state !== 'absent') throw new Error(`unexpected: ${JSON.stringify(status)}`)
  await driver.send([{ op: 'release', key, id }])
}
writeSync(1, `${granted.join('\n')}\n`)
await driver.close()

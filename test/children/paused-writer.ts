/**
 * Takes a lock, reads a counter, makes sure that it still holds the lock, is stopped at just that point, and when it
 * goes on writes the counter plus one. Arguments: the counter's kind, its place, `guarded` or not, the store's URL.
 */
import { LeaseholdError, connect } from '../../src/index.ts'
import { openCounter } from '../guards/counters.ts'

const [kind = '', place = '', guarded = '', url = ''] = process.argv.slice(2)
const counter = await openCounter(kind, place, guarded === 'guarded')
const locks = await connect(url)
let lease = await locks.acquire('counter', { ttl: 1000 })
let value = await counter.read()
// A lease that ended before the pause would prove nothing: the machine may be slow.
while (!lease.held) {
  lease = await locks.acquire('counter', { ttl: 1000 })
  value = await counter.read()
}
console.log('paused')
process.kill(process.pid, 'SIGSTOP')
try {
  await counter.write(value + 1, lease.fence)
  console.log('written')
} catch (error) {
  if (!(error instanceof LeaseholdError)) throw error
  console.log(`refused: ${error.code} ${error.reason}`)
}
await locks.close()
await counter.close()

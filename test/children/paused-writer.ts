/**
 * Takes a lock, reads a counter, makes sure that it still holds the lock, is stopped at just that point, and when it
 * goes on writes the counter plus one. Arguments: the counter's kind, its place, `raised`, `guarded` or not (`raised`: guarded,
 * and the fence is raised before the read), the store's URL.
 */
import { LeaseholdError, connect, type Lease } from '../../src/index.ts'
import { openCounter } from '../guards/counters.ts'

const [kind = '', place = '', guarded = '', url = ''] = process.argv.slice(2)
const counter = await openCounter(kind, place, guarded !== 'unguarded')
const locks = await connect(url)

async function acquireAndRead(): Promise<{ readonly lease: Lease; readonly value: number }> {
  const lease = await locks.acquire('counter', { ttl: 1000 })
  if (guarded === 'raised') await counter.raise(lease.fence)
  return { lease, value: await counter.read() }
}

let { lease, value } = await acquireAndRead()
// A lease that ended before the pause would prove nothing: the machine may be slow.
while (!lease.held) ({ lease, value } = await acquireAndRead())
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

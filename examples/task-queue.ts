/**
 * Workers take tasks off a shared list. No task is done by two workers at once, one that was claimed by a worker that
 * crashed is done by another, and one that is done is not done again while that is remembered.
 */
import { connect, type Locks } from 'leasehold'

const url = process.argv[2] ?? 'memory:tasks'
const tasks = ['invoice-1', 'invoice-2', 'invoice-3']
const done: string[] = []

async function worker(locks: Locks): Promise<void> {
  for (const id of tasks) {
    const claim = await locks.claim('invoices', id, { ttl: '30s' })
    if (claim.state !== 'claimed') continue
    // Given back undone if the work throws, and lost if this process dies.
    await using task = claim
    await new Promise((resolve) => setTimeout(resolve, 5))
    await task.heartbeat()
    done.push(id)
    await task.complete({ remember: '1d' })
  }
}

const crashed = await connect(url)
await crashed.claim('invoices', 'invoice-2', { ttl: '2s', heartbeat: 'manual' })

const workers = await Promise.all([1, 2, 3].map(() => connect(url)))
await Promise.all(workers.map(worker))
console.log(`done while one worker hung: ${done.toSorted().join(', ')}`)

await new Promise((resolve) => setTimeout(resolve, 2100))
await Promise.all(workers.map(worker))
console.log(`done in the end: ${done.toSorted().join(', ')}`)
for (const locks of [crashed, ...workers]) await locks.close()

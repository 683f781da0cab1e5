/**
 * Several instances compact the partitions of a state store. Each partition is compacted by one of them at a time;
 * whoever finds a partition taken goes on with the next. At most two compactions run at once, whoever does them.
 */
import { connect, type Locks } from 'leasehold'

const url = process.argv[2] ?? 'memory:compaction'
const partitions = [0, 1, 2, 3, 4, 5]
const underWay = new Set<number>()
const times = new Map<number, number>()

async function compact(partition: number, signal: AbortSignal): Promise<void> {
  if (underWay.has(partition)) throw new Error(`partition ${partition} is compacted twice at once`)
  if (underWay.size >= 2) throw new Error('three compactions at once')
  underWay.add(partition)
  await new Promise((resolve) => setTimeout(resolve, 10))
  underWay.delete(partition)
  signal.throwIfAborted()
  times.set(partition, (times.get(partition) ?? 0) + 1)
}

async function compactAll(name: string, locks: Locks): Promise<void> {
  const disk = locks.semaphore('compaction:disk', 2)
  for (const partition of partitions) {
    // Nobody else may compact it for a while, however soon this one is done.
    const { ran } = await locks.once(`compaction:partition:${partition}`, { atMost: '5m', atLeast: '1m' }, (lease) =>
      disk.run(() => compact(partition, lease.signal)),
    )
    console.log(ran ? `${name} compacted partition ${partition}` : `${name} leaves partition ${partition} to another`)
  }
}

const clients = await Promise.all([1, 2, 3].map(() => connect(url, { namespace: 'processor' })))
await Promise.all(clients.map((locks, index) => compactAll(`instance-${index + 1}`, locks)))
for (const locks of clients) await locks.close()
console.log(`each of ${times.size} partitions was compacted ${Math.max(...times.values())} time`)

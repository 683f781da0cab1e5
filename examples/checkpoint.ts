/**
 * Several instances of a stream processor write checkpoints, one at a time. A checkpoint carries the fence of the lock it
 * was written under, so that an instance that was stopped in the middle and woke up late cannot overwrite a newer one.
 *
 * Run it with a store of your own, e.g. `sqlite:locks.sqlite`, in as many terminals as you like.
 */
import { connect, type Lease } from 'leasehold'

interface Checkpoint {
  readonly fence: number
  readonly by: string
  readonly offset: number
}

/** Where checkpoints are kept: it refuses one that was written under an older lock than the last it has seen. */
class CheckpointStore {
  #last: Checkpoint = { fence: 0, by: 'nobody', offset: 0 }

  get last(): Checkpoint {
    return this.#last
  }

  /** Before a new checkpoint is worked out from the last: from now on nobody can write who held the lock before. */
  raise(fence: number): void {
    this.write({ ...this.#last, fence })
  }

  write(checkpoint: Checkpoint): void {
    if (checkpoint.fence < this.#last.fence) throw new Error(`fence ${checkpoint.fence} was superseded`)
    this.#last = checkpoint
  }
}

const url = process.argv[2] ?? 'memory:checkpoints'
const store = new CheckpointStore()
let atWork = 0

async function writeCheckpoint(name: string, lease: Lease): Promise<void> {
  atWork += 1
  if (atWork > 1) throw new Error('two instances write a checkpoint at once')
  store.raise(lease.fence)
  const { offset } = store.last
  // The work goes on only while the lock can be trusted.
  for (let part = 0; part < 3; part += 1) {
    lease.signal.throwIfAborted()
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  store.write({ fence: lease.fence, by: name, offset: offset + 100 })
  atWork -= 1
  console.log(`${name} wrote the checkpoint at offset ${store.last.offset}`)
}

async function instance(name: string): Promise<void> {
  await using locks = await connect(url, { namespace: 'processor' })
  for (let round = 0; round < 2; round += 1) {
    await locks.run('global:checkpoint', { ttl: '60s', maxHold: '10m' }, (lease) => writeCheckpoint(name, lease))
  }
}

await Promise.all(['instance-1', 'instance-2', 'instance-3'].map(instance))
console.log(`the last offset is ${store.last.offset}`)

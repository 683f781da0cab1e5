/**
 * Started by `memory` with `--expose-gc`, with the store and its place: holds ten thousand leases and prints what that takes, as
 * JSON.
 */
import { createHook } from 'node:async_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createLocks, type AcquireOptions, type Lease, type Locks } from '../../src/index.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { heapBytes } from '../support/heap.ts'
import { openStore } from '../support/bench-stores.ts'

export interface HeldCost {
  readonly leases: number
  readonly bytesPerLease: number
}

export interface HeldTimers {
  readonly timersMax: number
  readonly renewals: number
  readonly lost: number
}

const count = 10_000

function holdMany(locks: Locks, options?: AcquireOptions): Promise<Lease[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => locks.acquire(`orders/${index}`, options)))
}

/**
 * What a held lease adds to the heap: its name and everything that the client keeps for it, and the store if it is in this
 * process.
 */
async function measureHeap(store: string, where: string): Promise<HeldCost> {
  const locks = await createLocks({ driver: openStore(store, where) })
  // Warms up, so that grown maps and compiled code are not counted as the leases' memory.
  for (let round = 0; round < 2; round += 1) await Promise.all((await holdMany(locks)).map((lease) => lease.release()))
  const before = await heapBytes()
  const leases = await holdMany(locks)
  const after = await heapBytes()
  const bytesPerLease = (after - before) / leases.length
  await locks.close()
  return { leases: count, bytesPerLease }
}

/** The most timers alive at once while all leases are held and renewed. */
async function measureTimers(): Promise<HeldTimers> {
  const alive = new Set<number>()
  let turn = 0
  let turnOfLast = 0
  const hook = createHook({
    init(id, type) {
      if (type !== 'Timeout') return
      alive.add(id)
      turnOfLast = turn
    },
    destroy(id) {
      alive.delete(id)
    },
  })

  const locks = await createLocks({ driver: memory() })
  let renewals = 0
  let lost = 0
  locks.on('renewed', () => (renewals += 1))
  locks.on('lost', () => (lost += 1))
  hook.enable()
  const leases = await holdMany(locks, { ttl: '3s' })
  // The bench must not count a timer of its own.
  const until = performance.now() + 2500
  let timersMax = 0
  for (; performance.now() < until; turn += 1) {
    await nextTurn()
    // `destroy` is reported a turn or two late: count once no timer was made for longer than that.
    if (turn - turnOfLast > 3) timersMax = Math.max(timersMax, alive.size)
  }
  for (const lease of leases) if (!lease.held) lost += 1
  hook.disable()
  await locks.close()
  return { timersMax, renewals, lost }
}

const [store = '', where = ''] = process.argv.slice(2)
console.log(JSON.stringify(store === 'timers' ? await measureTimers() : await measureHeap(store, where)))
process.exit(0)

/** Started by `memory` with `--expose-gc`: holds ten thousand leases and prints what that takes, as JSON. */
import { createHook } from 'node:async_hooks'
import { setTimeout as pause, setImmediate as nextTurn } from 'node:timers/promises'
import { createLocks, type AcquireOptions, type Lease, type Locks } from '../../src/index.ts'
import { memory } from '../../src/drivers/memory/driver.ts'

export interface HeldCost {
  readonly leases: number
  readonly bytesPerLease: number
  readonly timersMax: number
  readonly renewals: number
  readonly lost: number
}

const count = 10_000

function holdMany(locks: Locks, options?: AcquireOptions): Promise<Lease[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => locks.acquire(`orders/${index}`, options)))
}

async function heapBytes(): Promise<number> {
  // Collects twice, a turn apart: objects freed first may release others.
  for (let turn = 0; turn < 2; turn += 1) {
    await pause(1)
    globalThis.gc?.()
  }
  return process.memoryUsage().heapUsed
}

/** What a held lease adds to the heap: its name and everything that the client and the store keep for it. */
async function measureHeap(): Promise<number> {
  const locks = await createLocks({ driver: memory() })
  // Warms up, so that grown maps and compiled code are not counted as the leases' memory.
  for (const lease of await holdMany(locks)) await lease.release()
  const before = await heapBytes()
  const leases = await holdMany(locks)
  const after = await heapBytes()
  await locks.close()
  return (after - before) / leases.length
}

/** The most timers alive at once while all leases are held and renewed. */
async function measureTimers(): Promise<Omit<HeldCost, 'leases' | 'bytesPerLease'>> {
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

const bytesPerLease = await measureHeap()
const timers = await measureTimers()
console.log(JSON.stringify({ leases: count, bytesPerLease, ...timers } satisfies HeldCost))

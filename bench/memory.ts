/** What the client itself costs: the memory driver beside async-mutex, and ten thousand leases held at once. */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Mutex } from 'async-mutex'
import { createLocks } from '../src/index.ts'
import { memory } from '../src/drivers/memory.ts'
import type { HeldCost } from './children/held-leases.ts'
import { interleave, report } from './report.ts'

const keysAtOnce = 1000
const wavesPerRound = 30
const rounds = 21

const names = Array.from({ length: keysAtOnce }, (_, index) => `orders/${index}`)

/** Pairs a second, when every key is taken and let go once a wave and all of them at once. */
async function pairsPerSecond(pair: (index: number) => Promise<void>): Promise<number> {
  const startedAt = performance.now()
  for (let wave = 0; wave < wavesPerRound; wave += 1) await Promise.all(names.map((_, index) => pair(index)))
  return (wavesPerRound * keysAtOnce * 1000) / (performance.now() - startedAt)
}

async function compare(): Promise<{ leasehold: number; asyncMutex: number; ratio: number }> {
  const locks = await createLocks({ driver: memory() })
  const mutexes = names.map(() => new Mutex())

  async function leaseholdPair(index: number): Promise<void> {
    const lease = await locks.acquire(names[index] as string)
    await lease.release()
  }
  async function asyncMutexPair(index: number): Promise<void> {
    const release = await (mutexes[index] as Mutex).acquire()
    release()
  }

  const contenders = {
    leasehold: () => pairsPerSecond(leaseholdPair),
    asyncMutex: () => pairsPerSecond(asyncMutexPair),
  }
  // Both are compiled before the first round that counts.
  await interleave(3, contenders)
  const { medians, ratio } = await interleave(rounds, contenders)
  await locks.close()
  return { ...medians, ratio: ratio('leasehold', 'asyncMutex') }
}

/** In a process of its own: only there is the heap nobody else's. */
function measureHeldLeases(): HeldCost {
  const child = fileURLToPath(new URL('children/held-leases.js', import.meta.url))
  const answer = execFileSync(process.execPath, ['--expose-gc', child], { encoding: 'utf8', timeout: 60_000 })
  return JSON.parse(answer) as HeldCost
}

const speed = await compare()
const held = measureHeldLeases()

report({
  name: 'memory',
  figures: {
    keysAtOnce,
    leaseholdPairsPerSecond: speed.leasehold,
    asyncMutexPairsPerSecond: speed.asyncMutex,
    heldLeases: held.leases,
    heldLeasesRenewed: held.renewals,
    heldLeasesLost: held.lost,
  },
  bars: {
    speedToAsyncMutex: { actual: speed.ratio, atLeast: 0.3 },
    heapPerHeldLeaseBytes: { actual: held.bytesPerLease, atMost: 1023 },
    timersAtMost: { actual: held.timersMax, atMost: 1 },
    leasesRenewed: { actual: held.renewals, atLeast: held.leases },
    leasesLost: { actual: held.lost, atMost: 0 },
  },
})

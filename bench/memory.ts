/** What the client itself costs: the memory driver beside async-mutex, and ten thousand leases held at once on three stores. */
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { Mutex } from 'async-mutex'
import { createLocks } from '../src/index.ts'
import { memory } from '../src/drivers/memory/driver.ts'
import { RedisServer } from '../test/support/redis-server.ts'
import type { HeldCost, HeldTimers } from './children/held-leases.ts'
import { interleave, report } from './report.ts'

const keysAtOnce = 1000
const wavesPerRound = 30
const rounds = 21
const wavesAlone = 400
const roundsAlone = 5
const heldLeases = 10_000

const names = Array.from({ length: keysAtOnce }, (_, index) => `orders/${index}`)

/** What `import` gives of async-mutex is several times slower than what `require` does, so both are measured. */
type Contender = 'leasehold' | 'asyncMutex' | 'asyncMutexRequired'

/** Takes and lets go of one lock. */
type Pair = () => Promise<void>

/** A pair for each key. */
const prepare: Record<Contender, () => Promise<Pair[]>> = {
  async leasehold() {
    const locks = await createLocks({ driver: memory() })
    return names.map((name) => async () => {
      const lease = await locks.acquire(name)
      await lease.release()
    })
  },
  asyncMutex: () => mutexPairs(Mutex),
  asyncMutexRequired: () =>
    mutexPairs((createRequire(import.meta.url)('async-mutex') as { Mutex: typeof Mutex }).Mutex),
}

async function mutexPairs(Kind: typeof Mutex): Promise<Pair[]> {
  const mutexes = names.map(() => new Kind())
  return mutexes.map((mutex) => async () => {
    const release = await mutex.acquire()
    release()
  })
}

/** Pairs a second, when every key is taken and let go once a wave and all of them at once. */
async function pairsPerSecond(pairs: readonly Pair[], waves: number): Promise<number> {
  const startedAt = performance.now()
  for (let wave = 0; wave < waves; wave += 1) await Promise.all(pairs.map((pair) => pair()))
  return (waves * keysAtOnce * 1000) / (performance.now() - startedAt)
}

/** Both in one process, in turns: what a program that uses both would see. */
async function compareInTurns() {
  const leasehold = await prepare.leasehold()
  const asyncMutex = await prepare.asyncMutex()
  const contenders = {
    leasehold: () => pairsPerSecond(leasehold, wavesPerRound),
    asyncMutex: () => pairsPerSecond(asyncMutex, wavesPerRound),
  }
  // Both are compiled before the first round that counts.
  await interleave(3, contenders)
  return interleave(rounds, contenders)
}

/** Each in processes of its own, in long runs: neither pays for the other's garbage, nor for being interrupted. */
function compareAlone() {
  const alone = (name: Contender) => () => Number(runNode([fileURLToPath(import.meta.url), name]))
  return interleave(roundsAlone, {
    leasehold: alone('leasehold'),
    asyncMutex: alone('asyncMutex'),
    asyncMutexRequired: alone('asyncMutexRequired'),
  })
}

async function runAlone(name: Contender): Promise<void> {
  const pairs = await prepare[name]()
  await pairsPerSecond(pairs, wavesAlone / 4)
  console.log(await pairsPerSecond(pairs, wavesAlone))
}

function runNode(options: readonly string[]): string {
  return execFileSync(process.execPath, options, { encoding: 'utf8', timeout: 60_000 })
}

/** Measured in processes of their own, so that nothing else is on the heap. */
function runHolder(...order: string[]): unknown {
  const child = fileURLToPath(new URL('children/held-leases.js', import.meta.url))
  return JSON.parse(runNode(['--expose-gc', child, ...order]))
}

/** What a held lease adds to the heap, by store. `client`: a store that keeps nothing. */
async function measureHeap(): Promise<Record<'client' | 'memory' | 'sqlite' | 'redis', number>> {
  const directory = await mkdtemp(path.join(tmpdir(), 'held-leases-'))
  const server = await RedisServer.start()
  const bytes = (...order: string[]): number => (runHolder(...order) as HeldCost).bytesPerLease
  const heap = {
    client: bytes('nothing'),
    memory: bytes('memory'),
    sqlite: bytes('sqlite', path.join(directory, 'locks.sqlite')),
    redis: bytes('redis', String(server.port)),
  }
  await server.stop()
  await rm(directory, { recursive: true })
  return heap
}

async function main(): Promise<void> {
  const inTurns = await compareInTurns()
  const alone = await compareAlone()
  const heap = await measureHeap()
  const held = runHolder('timers') as HeldTimers

  report({
    name: 'memory',
    figures: {
      keysAtOnce,
      leaseholdPairsPerSecond: inTurns.medians.leasehold,
      asyncMutexPairsPerSecond: inTurns.medians.asyncMutex,
      leaseholdAlonePairsPerSecond: alone.medians.leasehold,
      asyncMutexAlonePairsPerSecond: alone.medians.asyncMutex,
      asyncMutexRequiredAlonePairsPerSecond: alone.medians.asyncMutexRequired,
      speedToAsyncMutexAlone: alone.ratio('leasehold', 'asyncMutex'),
      heldLeases,
      heapPerHeldLeaseClientBytes: heap.client,
    },
    bars: {
      speedToAsyncMutex: {
        title: 'memory, 1,000 locks at once: pairs a second',
        peer: {
          name: 'async-mutex (import)',
          kind: 'library',
          ours: inTurns.medians.leasehold,
          theirs: inTurns.medians.asyncMutex,
          unit: 'pairs/s',
        },
        actual: inTurns.ratio('leasehold', 'asyncMutex'),
        atLeast: 0.3,
      },
      heapPerHeldLeaseMemoryBytes: {
        title: 'memory: heap for each of 10,000 held leases, with the record in the store',
        unit: 'bytes',
        actual: heap.memory,
        atMost: 500,
      },
      heapPerHeldLeaseSqliteBytes: {
        title: 'SQLite: heap for each of 10,000 held leases',
        unit: 'bytes',
        actual: heap.sqlite,
        atMost: 500,
      },
      heapPerHeldLeaseRedisBytes: {
        title: 'Redis: heap for each of 10,000 held leases',
        unit: 'bytes',
        actual: heap.redis,
        atMost: 500,
      },
      timers: { title: 'memory: timers alive while 10,000 leases are renewed', actual: held.timersMax, atMost: 1 },
      renewalsPerHeldLease: {
        title: 'memory: renewals of each of these leases, on average',
        actual: held.renewals / heldLeases,
        atLeast: 1,
      },
      heldLeasesLost: { title: 'memory: leases lost among them', actual: held.lost, atMost: 0 },
    },
    ratios: {
      speedToAsyncMutexRequiredAlone: {
        title: 'memory, 1,000 locks at once: pairs a second',
        peer: {
          name: 'async-mutex (require)',
          kind: 'library',
          ours: alone.medians.leasehold,
          theirs: alone.medians.asyncMutexRequired,
          unit: 'pairs/s',
        },
        actual: alone.ratio('leasehold', 'asyncMutexRequired'),
        better: 'more',
      },
    },
  })
}

const chosen = process.argv[2]
if (chosen !== undefined && chosen in prepare) await runAlone(chosen as Contender)
else await main()

// Compiled by test/unit/types.test.ts and scripts/consumers/types.mjs. Never run.
import {
  named,
  type AcquireOptions,
  type Body,
  type Duration,
  type Election,
  type Leader,
  type Lease,
  type LeaseholdError,
  type LeaseProof,
  type LeaseSet,
  type Lock,
  type Locks,
  type ReadWriteLock,
  type ReleaseResult,
  type RunArguments,
  type Runner,
  type Scope,
  type ScopeLike,
  type Semaphore,
  type Task,
  type WorkLoop,
} from 'leasehold'
import type { FileGuard, MemoryGuard, MongoGuard, RangeGuard, RedisGuard, SqlGuard } from 'leasehold/guards'

declare const runner: Runner
declare const scope: Scope
declare const proof: LeaseProof

// A lease as an object literal.
export const lease: Lease = {
  fence: 118,
  scope,
  key: scope.key,
  runner,
  acquiredAt: new Date(),
  signal: new AbortController().signal,
  held: true,
  remainingMs: 30_000,
  expiresAt: new Date(),
  heldMs: 0,
  heartbeating: false,
  loss: undefined,
  renew: async () => {},
  startHeartbeat: () => {},
  stopHeartbeat: () => {},
  progress: () => {},
  release: async () => ({ released: true }),
  upgrade: async () => lease,
  downgrade: async () => lease,
  handOff: async () => proof,
  toJSON: () => proof,
  [Symbol.asyncDispose]: async () => {},
}

// A lease as a class, with private parts of its own.
export class LeaseDouble implements Lease {
  readonly fence = 1
  readonly scope = named('a')
  readonly key = 'named:a'
  readonly runner = runner
  readonly acquiredAt = new Date()
  readonly remainingMs = 0
  readonly expiresAt = new Date()
  readonly heldMs = 0
  readonly heartbeating = false
  readonly loss: LeaseholdError | undefined
  readonly #abort = new AbortController()
  get signal(): AbortSignal {
    return this.#abort.signal
  }
  get held(): boolean {
    return !this.#abort.signal.aborted
  }
  async renew(_ttl?: Duration): Promise<void> {}
  startHeartbeat(): void {}
  stopHeartbeat(): void {}
  progress(): void {}
  async release(): Promise<ReleaseResult> {
    return { released: false, reason: 'lost' }
  }
  async upgrade(): Promise<Lease> {
    return this
  }
  async downgrade(): Promise<Lease> {
    return this
  }
  async handOff(): Promise<LeaseProof> {
    return proof
  }
  toJSON(): LeaseProof {
    return proof
  }
  async [Symbol.asyncDispose](): Promise<void> {}
}

const leases: LeaseSet = {
  leases: [lease],
  signal: lease.signal,
  held: true,
  release: async () => [{ released: true }],
  [Symbol.asyncDispose]: async () => {},
}

const lock: Lock = {
  scope,
  acquire: async () => lease,
  tryAcquire: async (options) => (options?.wait === undefined ? null : lease),
  run: async <Result>(...rest: RunArguments<Result>) => bodyOf(rest)(lease),
}
const semaphore: Semaphore = { ...lock, permits: 5 }
const readWrite: ReadWriteLock = {
  scope,
  read: async () => lease,
  tryRead: async () => null,
  runRead: async <Result>(...rest: RunArguments<Result>) => bodyOf(rest)(lease),
  write: async () => lease,
  tryWrite: async () => null,
  runWrite: async <Result>(...rest: RunArguments<Result>) => bodyOf(rest)(lease),
}

const election: Election = {
  scope,
  isLeader: true,
  term: 118,
  campaign: async () => ({ fence: 118, signal: lease.signal, held: true }),
  tryCampaign: async () => true,
  resign: async () => {},
  leader: async () => null,
  async *[Symbol.asyncIterator](): AsyncGenerator<Leader | null> {
    yield { runner, term: 118, since: new Date(), isMe: true }
  },
  [Symbol.asyncDispose]: async () => {},
}

const task: Task = {
  state: 'claimed',
  queue: 'emails',
  id: '42',
  lease,
  fence: 118,
  signal: lease.signal,
  heartbeat: async () => {},
  complete: async () => {},
  release: async () => ({ released: true }),
  [Symbol.asyncDispose]: async () => {},
}

const workLoop: WorkLoop = {
  running: 0,
  stopped: Promise.resolve(),
  stop: async () => {},
  [Symbol.asyncDispose]: async () => {},
}

// Locks as an object literal, whole.
export const locks: Locks = {
  runner,
  namespace: 'default',
  acquire: async () => lease,
  tryAcquire: async () => null,
  run: async <Result>(_scope: ScopeLike, ...rest: RunArguments<Result>) => bodyOf(rest)(lease),
  acquireAll: async () => leases,
  lock: () => lock,
  readWrite: () => readWrite,
  semaphore: () => semaphore,
  elect: () => election,
  once: async (_name, _options, body) => ({ ran: true, result: await body(lease), fence: lease.fence }),
  claim: async () => task,
  work: () => workLoop,
  resume: async () => lease,
  list: async () => ({ locks: [] }),
  inspect: async () => null,
  explain: async () => '',
  status: async () => ({ locked: false, waiting: 0 }),
  evict: async () => 0,
  sweep: async () => 0,
  stats: () => Promise.reject(new Error('Not in this test.')),
  verify: () => Promise.reject(new Error('Not in this test.')),
  on: () => ({ [Symbol.dispose]: () => {} }),
  close: async () => {},
  [Symbol.asyncDispose]: async () => {},
}

// What a program needs of them, as a class.
export class Contended implements Pick<Locks, 'tryAcquire' | 'acquire'> {
  async tryAcquire(_scope: ScopeLike, _options?: AcquireOptions): Promise<Lease | null> {
    return null
  }
  async acquire(): Promise<Lease> {
    return new LeaseDouble()
  }
}

// Guards, too.
export const memoryGuard: MemoryGuard = {
  check: () => {},
  raise: async () => {},
  write: async (_resource, _fence, write) => write(),
  forget: () => {},
}
export type DoubledGuards = Partial<FileGuard & RangeGuard & RedisGuard> & Pick<MongoGuard & SqlGuard, 'check'>

export async function used(given: Pick<Locks, 'acquire' | 'tryAcquire' | 'run'>): Promise<number> {
  await using held = await given.acquire('a')
  await using maybe = await given.tryAcquire('b', { wait: undefined })
  if (maybe === null) return held.fence
  return given.run('c', { ttl: '5s' }, ({ fence }) => fence)
}
export const uses = [used(locks), used({ ...locks, tryAcquire: async () => lease })]

function bodyOf<Result>(rest: RunArguments<Result>): Body<Result> {
  return rest.length === 1 ? rest[0] : rest[1]
}

import type { Lease } from '../../../src/api/lease.ts'
import type { Locks } from '../../../src/api/locks.ts'
import type { LeaseProof } from '../../../src/api/lease/proof.ts'
import type { Duration } from '../../../src/core/time/duration.ts'
import { handleOf } from '../../../src/api/lease/lease-handle.ts'

/** One way into a lock with one number: does what it does with the number, and leaves nothing behind. */
export interface Entry {
  /** The largest number that works. */
  readonly most: number
  /** Rejects or throws if the number is refused. `name` is a lock nobody else uses. */
  readonly enter: (locks: Locks, value: number, name: string) => Promise<unknown>
}

/** The limits of the store that the entries are tried on. */
export const store = { ttlMinMs: 1000, ttlMaxMs: 60_000, durationMaxMs: 120_000 } as const

const ttl = store.ttlMaxMs
const longest = store.durationMaxMs
const year = 31_536_000_000

async function released(lease: Promise<Lease | null>): Promise<void> {
  await (await lease)?.release()
}

/** Holds a lock meanwhile. */
async function holding(locks: Locks, name: string, body: (lease: Lease) => Promise<unknown>): Promise<void> {
  const lease = await locks.acquire(name, { ttl: '10s' })
  try {
    await body(lease)
  } finally {
    await handleOf(lease).latest.release()
  }
}

/** A lease that was handed off, resumed by what `change` makes of its proof. */
async function resumed(locks: Locks, name: string, change: (proof: LeaseProof) => LeaseProof, asked?: Duration) {
  const proof = await (await locks.acquire(name, { ttl: '10s' })).handOff()
  try {
    const lease = await locks.resume(change(proof), asked === undefined ? {} : { ttl: asked })
    await lease.handOff()
  } finally {
    const lease = await locks.resume(proof)
    await lease.release()
  }
}

/** Every call of the package that takes a duration or a number which reaches the store. */
export const entries: Readonly<Record<string, Entry>> = {
  'acquire({ ttl })': { most: ttl, enter: (locks, value, name) => released(locks.acquire(name, { ttl: value })) },
  'acquire({ grace })': {
    most: longest,
    enter: (locks, value, name) => released(locks.acquire(name, { grace: value })),
  },
  'tryAcquire({ maxHold })': {
    most: longest,
    enter: (locks, value, name) => released(locks.tryAcquire(name, { maxHold: value })),
  },
  'acquire({ staleAfter })': {
    most: longest,
    enter: (locks, value, name) => released(locks.acquire(name, { onConflict: 'steal-stale', staleAfter: value })),
  },
  'acquire({ priority })': {
    most: 1000,
    enter: (locks, value, name) => released(locks.acquire(name, { priority: value })),
  },
  'tryAcquire({ ttl })': { most: ttl, enter: (locks, value, name) => released(locks.tryAcquire(name, { ttl: value })) },
  'run({ ttl })': { most: ttl, enter: (locks, value, name) => locks.run(name, { ttl: value }, async () => {}) },
  'lock({ ttl })': {
    most: ttl,
    enter: (locks, value, name) => released(locks.lock(name, { ttl: value }).acquire()),
  },
  'readWrite({ ttl })': {
    most: ttl,
    enter: (locks, value, name) => released(locks.readWrite(name, { ttl: value }).read()),
  },
  'semaphore(permits)': {
    most: 2_147_483_647,
    enter: async (locks, value, name) => released(locks.semaphore(name, value).acquire()),
  },
  'acquireAll({ ttl })': {
    most: ttl,
    enter: async (locks, value, name) => (await locks.acquireAll([name, `${name}-too`], { ttl: value })).release(),
  },
  'elect({ ttl })': {
    most: ttl,
    enter: async (locks, value, name) => {
      const election = locks.elect(name, { ttl: value })
      await election.campaign()
      await election.resign()
    },
  },
  'elect({ grace })': {
    most: longest,
    enter: async (locks, value, name) => {
      const election = locks.elect(name, { grace: value })
      await election.campaign()
      await election.resign()
    },
  },
  'once({ atMost })': {
    most: ttl,
    enter: (locks, value, name) => locks.once(name, { atMost: value }, async () => {}),
  },
  'once({ atLeast })': {
    most: ttl,
    enter: (locks, value, name) => locks.once(name, { atMost: ttl, atLeast: value }, async () => {}),
  },
  'claim({ ttl })': {
    most: ttl,
    enter: async (locks, value, name) => {
      const task = await locks.claim('jobs', name, { ttl: value })
      if (task.state === 'claimed') await task.release()
    },
  },
  'complete({ remember })': {
    most: ttl,
    enter: async (locks, value, name) => {
      const task = await locks.claim('jobs', name)
      if (task.state !== 'claimed') throw new Error('The task should have been free.')
      try {
        await task.complete({ remember: value })
      } finally {
        await task.release()
      }
    },
  },
  'renew(ttl)': {
    most: ttl,
    enter: (locks, value, name) => holding(locks, name, (lease) => lease.renew(value)),
  },
  'renew(ttl), then upgrade and downgrade': {
    most: ttl,
    enter: async (locks, value, name) => {
      const lease = await locks.readWrite(name, { ttl: '10s' }).read()
      try {
        await lease.renew(value)
        await (await lease.upgrade()).downgrade()
      } finally {
        await handleOf(lease).latest.release()
      }
    },
  },
  'startHeartbeat(every)': {
    most: 5000,
    enter: (locks, value, name) => holding(locks, name, async (lease) => lease.startHeartbeat(value)),
  },
  'resume(proof, { ttl })': {
    most: ttl,
    enter: (locks, value, name) => resumed(locks, name, (proof) => proof, value),
  },
  'resume(proof.ttlMs)': {
    most: ttl,
    enter: (locks, value, name) => resumed(locks, name, (proof) => ({ ...proof, ttlMs: value })),
  },
  'resume(proof.doubtMs)': {
    most: year,
    enter: (locks, value, name) => resumed(locks, name, (proof) => ({ ...proof, doubtMs: value })),
  },
  'resume(proof.graceMs)': {
    most: year,
    enter: (locks, value, name) => resumed(locks, name, (proof) => ({ ...proof, graceMs: value })),
  },
  'resume(proof.limit)': {
    most: 2_147_483_647,
    enter: (locks, value, name) => resumed(locks, name, (proof) => ({ ...proof, mode: 'shared', limit: value })),
  },
  'resume(proof.range.end)': {
    most: 2 ** 53 - 1,
    enter: (locks, value, name) => resumed(locks, name, (proof) => ({ ...proof, range: { start: 0, end: value } })),
  },
}

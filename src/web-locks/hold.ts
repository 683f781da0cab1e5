import type { Lease } from '../api/lease.ts'
import type { LockRequest } from './arguments.ts'
import { exception } from './exceptions.ts'
import type { LockMode, WebLock } from './interface.ts'

class GrantedLock implements WebLock {
  readonly name: string
  readonly mode: LockMode
  readonly #lease: Lease

  constructor(name: string, mode: LockMode, lease: Lease) {
    this.name = name
    this.mode = mode
    this.#lease = lease
  }

  get fence(): number {
    return this.#lease.fence
  }

  get signal(): AbortSignal {
    return this.#lease.signal
  }

  get [Symbol.toStringTag](): string {
    return 'Lock'
  }
}

/**
 * Runs the callback, and lets the lock go when what it returned has settled. Rejects with AbortError as soon as the lock
 * is stolen or lost; the callback then goes on without it.
 */
export async function hold(lease: Lease, { name, mode, callback }: LockRequest): Promise<unknown> {
  try {
    const lost = whenLost(lease)
    // A callback that throws rejects like one that returns a rejected promise.
    const result = (async () => callback(new GrantedLock(name, mode, lease)))()
    return await Promise.race([result, lost])
  } finally {
    await lease.release()
  }
}

function whenLost(lease: Lease): Promise<never> {
  const { signal } = lease
  return new Promise((_, reject) => {
    const notify = (): void => {
      const how = lease.loss?.reason?.startsWith('evicted') === true ? 'stolen' : 'lost'
      reject(exception('AbortError', `The lock was ${how} while it was held.`, lease.loss))
    }
    if (signal.aborted) notify()
    else signal.addEventListener('abort', notify, { once: true })
  })
}

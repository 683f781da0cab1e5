import { checkFence, superseded } from './superseded.ts'

/**
 * Keeps stale holders out of resources in this process. It keeps one number for each resource, in memory: a resource that
 * outlives the process needs a guard that does, too.
 */
export interface MemoryGuard {
  /**
   * Throws LOST (`superseded`) if a higher fence has been seen. Write in the same synchronous step, before any other code
   * can run. For an asynchronous write use {@link write}.
   */
  check(resource: string, fence: number): void
  /**
   * Raises the fence before a read whose result is to be written back: once it resolves, no earlier holder is writing or
   * can write any more. Rejects with LOST (`superseded`) if a higher fence has been seen.
   */
  raise(resource: string, fence: number): Promise<void>
  /**
   * Runs an asynchronous write. Writes of one resource run one after another, and each fence is checked when its turn comes:
   * an earlier holder's write never lands after a later holder's.
   */
  write<Result>(resource: string, fence: number, write: () => Result | Promise<Result>): Promise<Result>
  /** Drops the fence of a resource that no longer exists: from now on every fence passes. */
  forget(resource: string): void
}

class MemoryFences implements MemoryGuard {
  readonly #seen = new Map<string, number>()
  /** By resource: settles when the last queued write has ended. */
  readonly #turns = new Map<string, Promise<void>>()

  check(resource: string, fence: number): void {
    const seen = this.#seen.get(resource) ?? 0
    if (checkFence(fence) < seen) throw superseded(resource, fence, seen)
    this.#seen.set(resource, fence)
  }

  async raise(resource: string, fence: number): Promise<void> {
    await this.write(resource, fence, () => {})
  }

  async write<Result>(resource: string, fence: number, write: () => Result | Promise<Result>): Promise<Result> {
    const before = this.#turns.get(resource)
    const { promise: turn, resolve: endTurn } = deferred()
    this.#turns.set(resource, turn)
    try {
      await before
      this.check(resource, fence)
      return await write()
    } finally {
      endTurn()
      if (this.#turns.get(resource) === turn) this.#turns.delete(resource)
    }
  }

  forget(resource: string): void {
    this.#seen.delete(resource)
  }
}

/**
 * A guard for resources in this process.
 *
 * @example
 * ```ts
 * import { memoryGuard } from 'leasehold/guards'
 *
 * const guard = memoryGuard()
 * await locks.run('orders/42', (lease) => guard.write('orders/42', lease.fence, async () => console.log('written')))
 * ```
 */
export function memoryGuard(): MemoryGuard {
  return new MemoryFences()
}

function deferred(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => {}
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}

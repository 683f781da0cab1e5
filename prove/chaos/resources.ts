import { memoryGuard } from '../../src/guards/index.ts'
import { deferred } from '../../test/support/deferred.ts'

/** The counter whose writes carry a fence, and the one whose writes do not. */
export type ResourceName = 'fenced' | 'unfenced'

/** What a client asks of a counter. */
export interface ResourceCall {
  readonly type: 'resource'
  readonly id: number
  readonly resource: ResourceName
  readonly fence: number
  /** Absent: reads. */
  readonly value?: number
  /** Neither reads nor writes: the client has read, and is about to write once this is answered. */
  readonly isAboutToWrite?: boolean
}

export interface ResourceAnswer {
  readonly type: 'answer'
  readonly id: number
  /** Absent: the fence was superseded, or nothing was read. */
  readonly value?: number
}

interface Counter {
  value: number
  writes: number
  refused: number
}

/** Two counters outside of the store, which clients read, add one to and write back while they hold a lock. */
export class Resources {
  readonly #guard = memoryGuard()
  readonly #watchers = new Map<ResourceName, (client: number) => void>()
  readonly #writeWatchers = new Map<ResourceName, (client: number) => void>()
  readonly #counters: Readonly<Record<ResourceName, Counter>> = { fenced: counter(), unfenced: counter() }

  /** Resolves with the next client that is about to write; undefined if there is none in time. */
  async nextWriter(resource: ResourceName, withinMs: number): Promise<number | undefined> {
    const next = deferred<number | undefined>()
    this.#watchers.set(resource, next.resolve)
    const timer = setTimeout(() => next.resolve(undefined), withinMs)
    const writer = await next.promise
    clearTimeout(timer)
    this.#watchers.delete(resource)
    return writer
  }

  /** Resolves once another client has written; also if none does in time. */
  async writtenByOther(resource: ResourceName, client: number, withinMs: number): Promise<void> {
    const written = deferred()
    this.#writeWatchers.set(resource, (writer) => writer !== client && written.resolve())
    const timer = setTimeout(written.resolve, withinMs)
    await written.promise
    clearTimeout(timer)
    this.#writeWatchers.delete(resource)
  }

  /** Writes that were accepted and are no longer in the counter. */
  lostUpdates(resource: ResourceName): number {
    const { value, writes } = this.#counters[resource]
    return writes - value
  }

  figures(resource: ResourceName): { readonly writes: number; readonly refused: number } {
    const { writes, refused } = this.#counters[resource]
    return { writes, refused }
  }

  async answer(client: number, call: ResourceCall): Promise<ResourceAnswer> {
    const { id, resource, fence, value, isAboutToWrite = false } = call
    if (isAboutToWrite) {
      this.#watchers.get(resource)?.(client)
      // Who waited for this writer may stop it before the answer is sent.
      await new Promise((resolve) => setImmediate(resolve))
      return { type: 'answer', id }
    }
    const found = this.#counters[resource]
    const apply = (): ResourceAnswer => {
      if (value !== undefined) {
        found.value = value
        found.writes += 1
        this.#writeWatchers.get(resource)?.(client)
      }
      return { type: 'answer', id, value: found.value }
    }
    if (resource === 'unfenced') return apply()
    try {
      // A read raises the fence: whoever came before cannot write any more.
      return await this.#guard.write(resource, fence, apply)
    } catch {
      found.refused += 1
      return { type: 'answer', id }
    }
  }
}

function counter(): Counter {
  return { value: 0, writes: 0, refused: 0 }
}

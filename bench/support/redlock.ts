import { createRequire } from 'node:module'
import type { Redis } from 'ioredis'

/** What is used of redlock 5, whose types its package hides from ES modules. */
interface Redlock {
  acquire(resources: string[], ttlMs: number): Promise<{ release(): Promise<unknown> }>
}

/** redlock over one server, trying again as often as our own waiting would. */
export function redlockOver(client: Redis): Redlock {
  const { default: Constructor } = createRequire(import.meta.url)('redlock') as {
    default: new (clients: Redis[], settings: object) => Redlock
  }
  return new Constructor([client], { retryCount: 10_000, retryDelay: 10, retryJitter: 5 })
}

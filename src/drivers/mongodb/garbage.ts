import { writeConcern } from './concerns.ts'
import type { Store } from './store.ts'

/** Collections that have, or are getting, their index, by the client or URL they were reached by. */
const byClient = new WeakMap<object, Set<string>>()
const byUrl = new Map<string, Set<string>>()

/**
 * Has the server collect records that are no longer of use. Once a process and collection; a failure only means that
 * nothing is collected, and whoever opens the collection next tries again.
 */
export async function collectGarbage(store: Store, timeoutMs: number): Promise<void> {
  const { of, name } = store.identity
  const done = doneFor(of)
  if (done.has(name)) return
  done.add(name)
  try {
    await store.collection.createIndex(
      { expiresAt: 1 },
      { name: 'expiresAt_ttl', expireAfterSeconds: 0, writeConcern, timeoutMS: timeoutMs },
    )
  } catch {
    done.delete(name)
  }
}

function doneFor(of: object | string): Set<string> {
  const known = typeof of === 'string' ? byUrl.get(of) : byClient.get(of)
  if (known !== undefined) return known
  const done = new Set<string>()
  if (typeof of === 'string') byUrl.set(of, done)
  else byClient.set(of, done)
  return done
}

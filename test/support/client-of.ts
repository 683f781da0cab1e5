import type { Client } from '../../src/api/client/client.ts'
import { internalsOf } from '../../src/api/client/locks-internals.ts'
import type { Locks } from '../../src/index.ts'

/** The client inside a `Locks`. */
export function clientOf(locks: Locks): Client {
  return internalsOf(locks, 'This test').client
}

import type { Client } from '../../src/api/client/client.ts'
import { internalsOf } from '../../src/api/client/locks-internals.ts'
import type { Locks } from '../../src/index.ts'

/** What a `Locks` of this package has inside. */
export function clientOf(locks: Locks): Client {
  return internalsOf(locks, 'This test').client
}

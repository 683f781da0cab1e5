import { principalWith } from '../../../src/server/auth/grants.ts'
import type { Principal, Right } from '../../../src/server/contract/call.ts'

/** A principal for some namespaces, or for all. */
export function principalFor(
  namespaces: readonly string[] | '*',
  rights: readonly Right[] = ['read', 'evict'],
): Principal {
  return principalWith('tester', [{ namespaces, rights }])
}

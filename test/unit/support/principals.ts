import type { Principal, Right } from '../../../src/server/contract/call.ts'

/** A principal for some namespaces, or for all. */
export function principalFor(
  namespaces: readonly string[] | '*',
  rights: readonly Right[] = ['read', 'evict'],
): Principal {
  const covered = namespaces === '*' ? undefined : new Set(namespaces)
  return { name: 'tester', rights: new Set(rights), covers: (namespace) => covered?.has(namespace) ?? true }
}

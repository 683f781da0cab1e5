import type { Grant, Right } from '../../../src/server/contract/call.ts'

/** A grant for some namespaces, or for all. */
export function grantFor(namespaces: readonly string[] | '*', rights: readonly Right[] = ['look', 'evict']): Grant {
  const covered = namespaces === '*' ? undefined : new Set(namespaces)
  return { name: 'tester', rights: new Set(rights), covers: (namespace) => covered?.has(namespace) ?? true }
}

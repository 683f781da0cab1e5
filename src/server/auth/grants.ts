import { checkNamespace, splitStoreKey } from '../../core/contract/scope.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { Principal, Right } from '../contract/call.ts'

/** Rights for some keys. */
export interface GrantOptions {
  /** The namespaces whose keys are meant; `*`: all. */
  readonly namespaces?: readonly string[] | '*' | undefined
  /** What the keys begin with, namespace first, as `GET /v1/keys` shows them: `builds/named:nightly/`. */
  readonly prefixes?: readonly string[] | undefined
  /** What may be done with them. */
  readonly rights: readonly Right[]
}

/** Every right there is. @internal */
export const allRights: readonly Right[] = ['read', 'lock', 'evict', 'admin']

/** The principal with these grants: what one of them allows is allowed. @internal */
export function principalWith(name: string, grants: readonly GrantOptions[]): Principal {
  const allowed = grants.map(keysOf)
  return {
    name,
    rights: new Set(allowed.flatMap(({ rights }) => [...rights])),
    covers: (namespace) => allowed.some(({ touches }) => touches(namespace)),
    may: (right, key) => allowed.some(({ rights, covers }) => rights.has(right) && covers(key)),
  }
}

interface GrantedKeys {
  readonly rights: ReadonlySet<Right>
  /** Whether a key is meant, and with it all keys that begin with the same text. */
  readonly covers: (text: string) => boolean
  /** Whether some key of the namespace is meant. */
  readonly touches: (namespace: string) => boolean
}

function keysOf({ namespaces = [], prefixes = [], rights }: GrantOptions): GrantedKeys {
  // An administrator may do everything that others may.
  const granted = new Set(rights.includes('admin') ? allRights : rights)
  if (namespaces === '*') return { rights: granted, covers: () => true, touches: () => true }
  const whole = new Set(namespaces)
  const inPart = new Set(prefixes.map((prefix) => splitStoreKey(prefix)?.namespace))
  return {
    rights: granted,
    covers: (text) =>
      whole.has(splitStoreKey(text)?.namespace ?? '') || prefixes.some((prefix) => text.startsWith(prefix)),
    touches: (namespace) => whole.has(namespace) || inPart.has(namespace),
  }
}

/** Checks a grant from outside. `subject` names in errors whose it is. @internal */
export function checkGrant(given: Partial<Record<keyof GrantOptions, unknown>>, subject: string): GrantOptions {
  const { namespaces, prefixes, rights } = given
  if (namespaces === undefined && prefixes === undefined) {
    throw badSetting(`${subject} needs namespaces: a list of them, or '*' for all; or prefixes of keys.`)
  }
  if (namespaces !== undefined && namespaces !== '*') {
    for (const namespace of checkTexts(namespaces, `The namespaces of ${subject}`)) checkNamespace(namespace)
  }
  if (prefixes !== undefined) {
    for (const prefix of checkTexts(prefixes, `The prefixes of ${subject}`)) {
      const split = splitStoreKey(prefix)
      if (split === undefined)
        throw badSetting(`${subject} has a prefix without a namespace. Write NAMESPACE/KIND:NAME.`)
      checkNamespace(split.namespace)
    }
  }
  const known = (right: unknown): boolean => (allRights as readonly unknown[]).includes(right)
  if (!Array.isArray(rights) || rights.length === 0 || !rights.every(known)) {
    throw badSetting(`${subject} needs rights: some of ${allRights.join(', ')}.`)
  }
  return {
    ...(namespaces !== undefined && { namespaces: namespaces as readonly string[] | '*' }),
    ...(prefixes !== undefined && { prefixes: prefixes as readonly string[] }),
    rights: rights as readonly Right[],
  }
}

/** Whether a text can be a namespace. @internal */
export function isNamespace(text: string): boolean {
  try {
    return checkNamespace(text) === text
  } catch {
    return false
  }
}

/** A list of texts, none of them empty and at least one. @internal */
export function checkTexts(given: unknown, subject: string): readonly string[] {
  const isList = Array.isArray(given) && given.length > 0
  if (isList && given.every((text) => typeof text === 'string' && text !== '')) return given as readonly string[]
  throw badSetting(`${subject} are a list of texts, with one at least.`)
}

/** An object of known fields: an unknown one would silently do nothing. @internal */
export function checkFields(given: unknown, known: object, subject: string): Readonly<Record<string, unknown>> {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw badSetting(`${subject} is not an object.`)
  const unknown = Object.keys(given).find((field) => !Object.hasOwn(known, field))
  if (unknown === undefined) return given as Readonly<Record<string, unknown>>
  throw badSetting(`${subject} has a field ${JSON.stringify(unknown)}, which means nothing.`)
}

/** What is set up makes no sense. @internal */
export function badSetting(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', message)
}

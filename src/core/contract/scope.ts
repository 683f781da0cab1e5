import type { Range } from './driver.ts'
import { LeaseholdError } from '../errors.ts'
import { limitError, rangeFault } from './limits.ts'
import { utf8Length } from './bounds.ts'

/** What is locked. Each scope has one canonical key; a plain string means {@link named}. */
export interface Scope {
  readonly kind: 'named' | 'inode' | 'path' | 'issue' | 'byteRange'
  /** Canonical within a namespace, e.g. `named:orders/42`. A byte range has the key of its inode. */
  readonly key: string
  readonly range?: Range
}

/** A scope, or the name of a lock. */
export type ScopeLike = string | Scope

const nameBytesMax = 512
/** Characters that no name and no line of text may have: they would end the line, command a terminal, or reverse the text. @internal */
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
export const controlCharacters = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/
const namespaceForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

/** A lock by name. */
export function named(name: string): Scope {
  return { kind: 'named', key: `named:${checkName(name, 'The name of a lock')}` }
}

/** A whole file or directory. Conflicts with every byte range of the same inode. */
export function inode(number: number): Scope {
  return { kind: 'inode', key: `inode:${checkWholeNumber(number, 'An inode', 0)}` }
}

/** An absolute path, normalised. It covers no children: `/a` and `/a/b` are two locks. */
export function path(location: string): Scope {
  const text = checkName(location, 'A path')
  if (!text.startsWith('/')) {
    throw new LeaseholdError('INVALID', `The path ${JSON.stringify(text)} is not absolute. Begin it with '/'.`)
  }
  return { kind: 'path', key: `path:${normalised(text)}` }
}

/** An absolute path without `.`, `..`, empty parts, or a slash at its end. Nothing is above the root. */
function normalised(location: string): string {
  const parts: string[] = []
  for (const part of location.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  return `/${parts.join('/')}`
}

/** Bytes from `start` up to, not including, `end` of an inode. */
export function byteRange(inodeNumber: number, start: number, end: number): Scope {
  checkWholeNumber(start, 'The start of a byte range', 0)
  checkWholeNumber(end, 'The end of a byte range', 0)
  if (start >= end) {
    throw new LeaseholdError(
      'INVALID',
      `The byte range ${start} to ${end} is empty or reversed. Its end is not part of it.`,
    )
  }
  return { kind: 'byteRange', key: inode(inodeNumber).key, range: { start, end } }
}

/** An issue of a repository, by number. */
export function issue(number: number): Scope {
  return { kind: 'issue', key: `issue:${checkWholeNumber(number, 'An issue', 1)}` }
}

/** The scope a caller means. @internal */
export function toScope(scope: ScopeLike): Scope {
  if (typeof scope === 'string') return named(scope)
  if (typeof scope?.key === 'string' && typeof scope.kind === 'string') return checkScope(scope)
  throw new LeaseholdError('INVALID', 'A scope is a name, or made by named, inode, path, byteRange or issue.')
}

/** A scope may have been made by hand: refuses a key that none of our functions makes, and that a server would refuse. */
function checkScope(scope: Scope): Scope {
  if (!isScopeKey(scope.key)) throw new LeaseholdError('INVALID', `The key of a scope ${scopeKeyForm}.`)
  const fault = scope.range === undefined ? undefined : rangeFault(scope.range)
  if (fault !== undefined) throw limitError(fault)
  return scope
}

/** How people write the scope: what {@link named} was given, else `inode 7`, `inode 7 [0, 4096)`, `path /a`, `issue 5`. @internal */
export function describeScope(scope: { readonly key: string; readonly range?: Range | undefined }): string {
  const split = scope.key.indexOf(':')
  const kind = scope.key.slice(0, split)
  const rest = scope.key.slice(split + 1)
  const text = kind === 'named' ? rest : `${kind} ${rest}`
  return scope.range === undefined ? text : `${text} [${scope.range.start}, ${scope.range.end})`
}

/** Whether a lease on `held` protects `wanted`: the same thing, or a range inside it. @internal */
export function covers(held: Pick<Scope, 'key' | 'range'>, wanted: Pick<Scope, 'key' | 'range'>): boolean {
  if (held.key !== wanted.key) return false
  if (held.range === undefined) return true
  if (wanted.range === undefined) return false
  return held.range.start <= wanted.range.start && wanted.range.end <= held.range.end
}

/** The key a store sees: the scope's own, inside a namespace. @internal */
export function storeKey(namespace: string, scopeKey: string): string {
  return `${namespace}/${scopeKey}`
}

/** The inverse of {@link storeKey}; undefined for a key that no namespace of ours made. @internal */
export function splitStoreKey(key: string): { readonly namespace: string; readonly scopeKey: string } | undefined {
  const split = key.indexOf('/')
  if (split < 1) return undefined
  return { namespace: key.slice(0, split), scopeKey: key.slice(split + 1) }
}

const scopeKeyForm = 'must be KIND:NAME in its normal form, where KIND is named, path, inode or issue'

/** Whether one of the functions above makes this key. A name or path must be whole, printable and short enough. */
function isScopeKey(scopeKey: string): boolean {
  const split = scopeKey.indexOf(':')
  const rest = scopeKey.slice(split + 1)
  try {
    switch (scopeKey.slice(0, split)) {
      case 'named':
        return named(rest).key === scopeKey
      case 'path':
        return path(rest).key === scopeKey
      case 'inode':
        return inode(Number(rest)).key === scopeKey
      case 'issue':
        return issue(Number(rest)).key === scopeKey
      default:
        return false
    }
  } catch {
    return false
  }
}

/**
 * What is wrong with a key that a client wants to claim at a server: strangers share its store, and its keys reach logs, terminals
 * and pages. Undefined if a client of ours could have made the key.
 * @internal
 */
export function storeKeyFault(key: string): string | undefined {
  const place = splitStoreKey(key)
  if (place !== undefined && namespaceForm.test(place.namespace) && isScopeKey(place.scopeKey)) return undefined
  return 'must be NAMESPACE/KIND:NAME in its normal form, printable, where KIND is named, path, inode or issue'
}

/** The scope of a claim, from what the store knows of it. @internal */
export function scopeOf({ key, range }: { readonly key: string; readonly range?: Range | undefined }): Scope {
  const scopeKey = splitStoreKey(key)?.scopeKey ?? key
  if (range !== undefined) return { kind: 'byteRange', key: scopeKey, range }
  return { kind: scopeKey.slice(0, scopeKey.indexOf(':')) as Scope['kind'], key: scopeKey }
}

/** The namespace, if it is usable. @internal */
export function checkNamespace(namespace: string): string {
  if (typeof namespace === 'string' && namespaceForm.test(namespace)) return namespace
  throw new LeaseholdError(
    'INVALID',
    `The namespace ${JSON.stringify(namespace)} is not usable. Use up to 64 letters, digits, '.', '_' or '-'.`,
  )
}

function checkName(name: string, subject: string): string {
  if (typeof name !== 'string' || name.length === 0)
    throw new LeaseholdError('INVALID', `${subject} must be text and not empty.`)
  if (name.length * 3 > nameBytesMax && utf8Length(name) > nameBytesMax) {
    throw new LeaseholdError('INVALID', `${subject} is ${utf8Length(name)} bytes long; ${nameBytesMax} are allowed.`)
  }
  if (controlCharacters.test(name))
    throw new LeaseholdError('INVALID', `${subject} has a control character: ${JSON.stringify(name)}.`)
  if (!name.isWellFormed())
    throw new LeaseholdError('INVALID', `${subject} is not well-formed Unicode: ${JSON.stringify(name)}.`)
  return name
}

function checkWholeNumber(value: number, subject: string, least: number): number {
  if (Number.isSafeInteger(value) && value >= least) return value
  throw new LeaseholdError(
    'INVALID',
    `${subject} must be a whole number of at least ${least} and below 2^53, not ${String(value)}.`,
  )
}

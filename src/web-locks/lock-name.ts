import { createHash } from 'node:crypto'
import { named, type Scope } from '../core/contract/scope.ts'

/** The most bytes of a name of Leasehold. */
const nameBytesMax = 512

/** Characters that a name of Leasehold may not have, lone surrogates among them, and the escape mark `%` itself. */
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const special = /[\u0000-\u001f%\u007f-\u009f\u2028-\u202e\u2066-\u2069]|\p{Surrogate}/gu

/** The metadata field that keeps a name whose key is only its digest. */
const metadataName = 'webLock'

/** A Web Lock's name as a scope, and the metadata from which the name can be found again. */
export interface NamedScope {
  readonly scope: Scope
  readonly metadata: Readonly<Record<string, string>> | undefined
}

/**
 * A Web Lock may have any name: empty, with control characters, with lone surrogates. Usual names stay as they are, so that
 * they mean the same lock as `locks.acquire(name)`; special characters become `%XXXX`, and a name that is too long its digest.
 */
export function webLockScope(name: string): NamedScope {
  const text = name === '' ? '%' : name.replace(special, escaped)
  if (Buffer.byteLength(text) <= nameBytesMax) return { scope: named(text), metadata: undefined }
  return { scope: named(digestOf(text)), metadata: { [metadataName]: text } }
}

/** The inverse of {@link webLockScope}. */
export function webLockName(scopeText: string, metadata: Readonly<Record<string, unknown>> | undefined): string {
  const long = metadata?.[metadataName]
  // Some stores keep only the metadata of a client's first claim, which may be of another lock.
  const text = typeof long === 'string' && digestOf(long) === scopeText ? long : scopeText
  if (text === '%') return ''
  return text.replaceAll(/%([0-9a-f]{4})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
}

function digestOf(text: string): string {
  return `%sha256-${createHash('sha256').update(text).digest('hex')}`
}

function escaped(character: string): string {
  return `%${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

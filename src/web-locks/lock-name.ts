import { createHash } from 'node:crypto'
import { named, type Scope } from '../core/contract/scope.ts'

/** The most bytes a name of ours has. */
const nameBytesMax = 512

/** What a name of ours may not have, and the mark itself. A surrogate without its other half is one too. */
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const special = /[\u0000-\u001f%\u007f-\u009f\u2028\u2029]|\p{Surrogate}/gu

/** Where the name of a lock is found whose key has only its digest. */
const metadataName = 'webLock'

/** A Web Lock's name as a scope, and what to keep beside the claim so that the name can be found again. */
export interface NamedScope {
  readonly scope: Scope
  readonly metadata: Readonly<Record<string, string>> | undefined
}

/**
 * Web Locks may be called anything: nothing, control characters, half a character. Usual names stay as they are, and so
 * mean the same lock as `locks.acquire(name)`; the rest is written as `%XXXX`, and a name that is too long as its digest.
 */
export function scopeOf(name: string): NamedScope {
  const text = name === '' ? '%' : name.replace(special, escaped)
  if (Buffer.byteLength(text) <= nameBytesMax) return { scope: named(text), metadata: undefined }
  return { scope: named(digestOf(text)), metadata: { [metadataName]: text } }
}

/** The inverse of {@link scopeOf}. */
export function nameOf(scopeText: string, metadata: Readonly<Record<string, unknown>> | undefined): string {
  const long = metadata?.[metadataName]
  // Some stores tell only what a client said with its first claim, which may be of another lock.
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

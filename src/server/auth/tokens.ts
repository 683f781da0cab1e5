import { createHash, timingSafeEqual } from 'node:crypto'
import { LeaseholdError } from '../../core/errors.ts'
import { checkNamespace } from '../../core/contract/scope.ts'
import type { Principal, Right } from '../contract/call.ts'

/** A token as it is configured: itself, or only its SHA-256 so that the file gives nothing away. */
export interface TokenOptions {
  /** For logs, the audit, and `metadata.via` of claims. */
  readonly name: string
  /** At least 16 printable characters. */
  readonly token?: string | undefined
  /** The SHA-256 of the token, 64 hex digits, instead of the token. */
  readonly sha256?: string | undefined
  /** Which namespaces it is good for; `*`: all. */
  readonly namespaces: readonly string[] | '*'
  /** What it may do. */
  readonly rights: readonly Right[]
}

const rightsKnown: readonly Right[] = ['lock', 'read', 'evict']
const fieldsKnown: ReadonlySet<string> = new Set(['name', 'token', 'sha256', 'namespaces', 'rights'])
const nameForm = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/
const tokenForm = /^[\x21-\x7e]{16,512}$/

/** The principal of every call to a server without tokens: it may do everything. @internal */
export const anybody: Principal = { name: 'anybody', rights: new Set(rightsKnown), covers: () => true }

/** The principal of a call to a route that asks for no token: it may do nothing. @internal */
export const nobody: Principal = { name: 'nobody', rights: new Set(), covers: () => false }

/** Knows tokens by their hashes. @internal */
export class TokenBook {
  readonly #entries: readonly { readonly digest: Buffer; readonly principal: Principal }[]

  constructor(tokens: readonly TokenOptions[]) {
    this.#entries = checkTokens(tokens).map((token) => ({ digest: digestOf(token), principal: principalOf(token) }))
  }

  /** What the token of an `Authorization` header allows; undefined if it is none of ours. */
  find(authorization: string | undefined): Principal | undefined {
    const [, token] = /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization ?? '') ?? []
    if (token === undefined) return undefined
    const digest = sha256(token)
    let found: Principal | undefined
    // Compare with every token, always: the time taken must not reveal how close a guess was.
    for (const entry of this.#entries) if (timingSafeEqual(entry.digest, digest)) found = entry.principal
    return found
  }
}

/** Checks tokens from outside, such as a file. The error names the token that is wrong and never shows it. @internal */
export function checkTokens(tokens: unknown): readonly TokenOptions[] {
  if (!Array.isArray(tokens)) throw invalid('Tokens are a list: [{ name, token, namespaces, rights }, …].')
  if (tokens.length === 0) throw invalid('The list of tokens is empty: nobody could call the server.')
  const names = new Set<string>()
  const digests = new Set<string>()
  for (const [index, entry] of tokens.entries()) {
    const token = checkToken(entry, `Token ${index + 1}`)
    if (names.has(token.name)) throw invalid(`Two tokens have the name ${JSON.stringify(token.name)}.`)
    names.add(token.name)
    const digest = digestOf(token).toString('hex')
    if (digests.has(digest)) throw invalid(`The token of ${JSON.stringify(token.name)} is there twice.`)
    digests.add(digest)
  }
  return tokens as readonly TokenOptions[]
}

function checkToken(entry: unknown, what: string): TokenOptions {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) throw invalid(`${what} is not an object.`)
  const { name, token, sha256: hash, namespaces, rights } = entry as Partial<Record<keyof TokenOptions, unknown>>
  if (typeof name !== 'string' || !nameForm.test(name)) {
    throw invalid(`${what} needs a name: up to 64 letters, digits, '.', '_', '@' or '-'.`)
  }
  const who = `${what} (${name})`
  const unknown = Object.keys(entry).find((field) => !fieldsKnown.has(field))
  if (unknown !== undefined) throw invalid(`${who} has a field ${JSON.stringify(unknown)}, which means nothing.`)
  if ((token === undefined) === (hash === undefined)) throw invalid(`${who} needs either token or sha256.`)
  if (token !== undefined && !(typeof token === 'string' && tokenForm.test(token))) {
    throw invalid(`${who} has an unusable token. Use 16 to 512 printable characters without spaces.`)
  }
  if (hash !== undefined && !(typeof hash === 'string' && /^[0-9a-f]{64}$/i.test(hash))) {
    throw invalid(`${who} has a sha256 that is not 64 hex digits.`)
  }
  if (namespaces !== '*') {
    if (!Array.isArray(namespaces) || namespaces.length === 0) {
      throw invalid(`${who} needs namespaces: a list of them, or '*' for all.`)
    }
    for (const namespace of namespaces as unknown[]) checkNamespace(namespace as string)
  }
  const known = (right: unknown): boolean => (rightsKnown as readonly unknown[]).includes(right)
  if (!Array.isArray(rights) || rights.length === 0 || !rights.every(known)) {
    throw invalid(`${who} needs rights: some of ${rightsKnown.join(', ')}.`)
  }
  return entry as TokenOptions
}

function principalOf({ name, namespaces, rights }: TokenOptions): Principal {
  const covered = namespaces === '*' ? undefined : new Set(namespaces)
  return { name, rights: new Set(rights), covers: (namespace) => covered === undefined || covered.has(namespace) }
}

function digestOf({ token, sha256: hash }: TokenOptions): Buffer {
  return hash === undefined ? sha256(token as string) : Buffer.from(hash, 'hex')
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

function invalid(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', message)
}

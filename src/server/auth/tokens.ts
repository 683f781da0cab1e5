import { createHash } from 'node:crypto'
import type { Principal } from '../contract/call.ts'
import {
  allRights,
  badSetting,
  checkFields,
  checkGrant,
  checkTexts,
  principalWith,
  type GrantOptions,
} from './grants.ts'
import { checkRate, type RateOptions } from './rate-limits.ts'

/** One secret of a token: itself, or only its SHA-256 so that the file gives nothing away. */
export interface SecretOptions {
  /** At least 16 printable characters. */
  readonly token?: string | undefined
  /** The SHA-256 of the token, 64 hex digits, instead of the token. */
  readonly sha256?: string | undefined
  /** When the secret is no longer taken: `2027-01-31T00:00:00Z`. */
  readonly expires?: string | undefined
}

/** A token as it is configured: how its holder is recognised, and what it may do. */
export interface TokenOptions extends SecretOptions, Partial<GrantOptions> {
  /** For logs, the audit, and `metadata.via` of claims. */
  readonly name: string
  /** More secrets for the same token, so that one can be replaced while both are in use. */
  readonly secrets?: readonly SecretOptions[] | undefined
  /** Client certificates that stand for it, by a name in them: `dns:worker.example`, `uri:spiffe://…`, `email:…`, `cn:…`. */
  readonly certificates?: readonly string[] | undefined
  /** More rights, for other keys. */
  readonly grants?: readonly GrantOptions[] | undefined
  /** Its own rate limit, instead of the one for all tokens. */
  readonly rate?: RateOptions | undefined
}

/** Whom a credential stands for, until when, and as what. @internal */
export interface SignIn {
  readonly principal: Principal
  /** By our wall clock; Infinity: for as long as it is configured. */
  readonly expiresAt: number
  readonly rate: RateOptions | undefined
  /** The credential, so that it can be found again: a digest, or a name in a certificate. */
  readonly credential: string
  /** Differs whenever the rights differ. */
  readonly stamp: string
}

const secretFields: Readonly<Record<keyof SecretOptions, true>> = { token: true, sha256: true, expires: true }
const grantFields: Readonly<Record<keyof GrantOptions, true>> = { namespaces: true, prefixes: true, rights: true }
const tokenFields: Readonly<Record<keyof TokenOptions, true>> = {
  ...secretFields,
  ...grantFields,
  name: true,
  secrets: true,
  certificates: true,
  grants: true,
  rate: true,
}
const nameForm = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/
const tokenForm = /^[\x21-\x7e]{16,512}$/
const certificateForm = /^(?:dns|uri|email|cn):[^\p{Cc}]{1,512}$/u

const everything: readonly GrantOptions[] = [{ namespaces: '*', rights: allRights }]

/** The principal of every call to a server without tokens: it may do everything. @internal */
export const anybody: Principal = principalWith('anybody', everything)

/** The principal of a call to a route that asks for no token: it may do nothing. @internal */
export const nobody: Principal = principalWith('nobody', [])

/** Knows tokens by the hashes of their secrets, and by the certificates that stand for them. @internal */
export class TokenBook {
  /** By the digest of the secret, in hex. */
  readonly #bySecret: ReadonlyMap<string, SignIn>
  readonly #byCertificate: ReadonlyMap<string, SignIn>

  constructor(tokens: readonly TokenOptions[]) {
    const entries = checkTokens(tokens).map((token) => ({ token, principal: principalOf(token) }))
    this.#bySecret = new Map(
      entries.flatMap(({ token, principal }) =>
        secretsOf(token).map((secret) => {
          const digest = digestOf(secret)
          const expiresAt = Math.min(expiryOf(token), expiryOf(secret))
          return [digest, signInOf(token, principal, digest, expiresAt)] as const
        }),
      ),
    )
    this.#byCertificate = new Map(
      entries.flatMap(({ token, principal }) =>
        (token.certificates ?? []).map((name) => [name, signInOf(token, principal, name, expiryOf(token))] as const),
      ),
    )
  }

  /** Whom a token stands for; undefined if it is none of ours. It may have expired. */
  find(token: string): SignIn | undefined {
    // The time taken may reveal how close a digest is, which says nothing of the token; and it does not grow with the tokens.
    return this.#bySecret.get(sha256(token))
  }

  /** Whom a client certificate with these names stands for. Undefined: for nobody, or for more than one. */
  findCertificate(names: readonly string[]): SignIn | undefined {
    const found = names.flatMap((name) => this.#byCertificate.get(name) ?? [])
    const [first] = found
    return found.every(({ principal }) => principal === first?.principal) ? first : undefined
  }

  /** Whether a credential that was taken before is taken now, for the same rights. */
  stillTakes({ credential, stamp }: SignIn): boolean {
    return (this.#bySecret.get(credential) ?? this.#byCertificate.get(credential))?.stamp === stamp
  }
}

/** Checks tokens from outside, such as a file. The error names the token that is wrong and never shows it. @internal */
export function checkTokens(tokens: unknown): readonly TokenOptions[] {
  if (!Array.isArray(tokens)) throw badSetting('Tokens are a list: [{ name, token, namespaces, rights }, …].')
  if (tokens.length === 0) throw badSetting('The list of tokens is empty: nobody could call the server.')
  const names = new Set<string>()
  const credentials = new Set<string>()
  for (const [index, entry] of tokens.entries()) {
    const token = checkToken(entry, `Token ${index + 1}`)
    if (names.has(token.name)) throw badSetting(`Two tokens have the name ${JSON.stringify(token.name)}.`)
    names.add(token.name)
    const digests = secretsOf(token).map((secret) => digestOf(secret))
    for (const credential of [...digests, ...(token.certificates ?? [])]) {
      if (credentials.has(credential)) {
        throw badSetting(`A secret or certificate of ${JSON.stringify(token.name)} is there twice.`)
      }
      credentials.add(credential)
    }
  }
  return tokens as readonly TokenOptions[]
}

function checkToken(entry: unknown, what: string): TokenOptions {
  const { name } = (typeof entry === 'object' && entry !== null ? entry : {}) as { readonly name?: unknown }
  if (typeof name !== 'string' || !nameForm.test(name)) {
    if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) checkFields(entry, tokenFields, what)
    throw badSetting(`${what} needs a name: up to 64 letters, digits, '.', '_', '@' or '-'.`)
  }
  const subject = `${what} (${name})`
  const fields = checkFields(entry, tokenFields, subject) as Partial<Record<keyof TokenOptions, unknown>>
  const { token, sha256: hash, secrets, certificates, grants, rate, namespaces, prefixes, rights } = fields
  checkExpiry(fields.expires, subject)
  if (token !== undefined || hash !== undefined) checkSecret(fields, subject)
  if (secrets !== undefined) {
    if (!Array.isArray(secrets)) throw badSetting(`The secrets of ${subject} are a list: [{ token }, …].`)
    for (const secret of secrets) {
      checkSecret(checkFields(secret, secretFields, `A secret of ${subject}`), `A secret of ${subject}`)
    }
  }
  if (certificates !== undefined) {
    const wrong = checkTexts(certificates, `The certificates of ${subject}`).find((each) => !certificateForm.test(each))
    if (wrong !== undefined) throw badSetting(`${subject} has a certificate that is no dns:, uri:, email: or cn: name.`)
  }
  const isReachable = token !== undefined || hash !== undefined || certificates !== undefined
  if (!isReachable && !(Array.isArray(secrets) && secrets.length > 0)) {
    throw badSetting(`${subject} needs either token or sha256, or secrets, or certificates.`)
  }
  if (grants === undefined || namespaces !== undefined || prefixes !== undefined || rights !== undefined) {
    checkGrant(fields, subject)
  }
  if (grants !== undefined) {
    if (!Array.isArray(grants) || grants.length === 0)
      throw badSetting(`The grants of ${subject} are a list, not empty.`)
    for (const grant of grants)
      checkGrant(checkFields(grant, grantFields, `A grant of ${subject}`), `A grant of ${subject}`)
  }
  if (rate !== undefined) checkRate(rate, `The rate of ${subject}`)
  return entry as TokenOptions
}

function checkSecret(secret: Partial<Record<keyof SecretOptions, unknown>>, subject: string): void {
  const { token, sha256: hash, expires } = secret
  if ((token === undefined) === (hash === undefined)) throw badSetting(`${subject} needs either token or sha256.`)
  if (token !== undefined && !(typeof token === 'string' && tokenForm.test(token))) {
    throw badSetting(`${subject} has an unusable token. Use 16 to 512 printable characters without spaces.`)
  }
  if (hash !== undefined && !(typeof hash === 'string' && /^[0-9a-f]{64}$/i.test(hash))) {
    throw badSetting(`${subject} has a sha256 that is not 64 hex digits.`)
  }
  checkExpiry(expires, subject)
}

const expiryForm = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2})$/

function checkExpiry(expires: unknown, subject: string): void {
  if (expires === undefined) return
  // Without a zone it would be another moment on another machine.
  if (typeof expires === 'string' && expiryForm.test(expires) && !Number.isNaN(Date.parse(expires))) return
  throw badSetting(`${subject} has an unusable expiry. Write it with a zone: 2027-01-31T00:00:00Z.`)
}

function expiryOf({ expires }: SecretOptions): number {
  return expires === undefined ? Infinity : Date.parse(expires)
}

function secretsOf({ token, sha256: hash, secrets = [] }: TokenOptions): readonly SecretOptions[] {
  return token === undefined && hash === undefined ? secrets : [{ token, sha256: hash }, ...secrets]
}

function grantsOf({ namespaces, prefixes, rights, grants = [] }: TokenOptions): readonly GrantOptions[] {
  return rights === undefined ? grants : [{ namespaces, prefixes, rights }, ...grants]
}

function principalOf(token: TokenOptions): Principal {
  return principalWith(token.name, grantsOf(token))
}

function signInOf(token: TokenOptions, principal: Principal, credential: string, expiresAt: number): SignIn {
  const stamp = JSON.stringify([token.name, grantsOf(token), expiresAt])
  return { principal, expiresAt, rate: token.rate, credential, stamp }
}

/** In hex. */
function digestOf({ token, sha256: hash }: SecretOptions): string {
  return hash === undefined ? sha256(token as string) : hash.toLowerCase()
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

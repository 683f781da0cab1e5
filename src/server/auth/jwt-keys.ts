import type { JSONWebKeySet, JWTVerifyGetKey, LocalJWKSet } from 'jose'
import { messageOf } from '../../core/errors.ts'
import { SingleFlight } from '../../core/time/single-flight.ts'
import { isLoopback } from './origins.ts'
import { badSetting } from './grants.ts'

/** What is used of the package `jose`. @internal */
export type Jose = Pick<typeof import('jose'), 'createLocalJWKSet' | 'jwtVerify' | 'errors'>

/** The issuer's keys are asked for again after that long. */
const freshMs = 600_000
/** And, when a token names a key that is not among them, at most this often. */
const againMs = 30_000
/** For how long keys count while the issuer does not answer: its fall must not cost every lease. */
const countMs = 86_400_000
/** While there are none at all, at most this often: every stranger's JWT asks for them. */
const againWithoutMs = 1000
const withinMs = 5000
const bytesMax = 1_048_576

/** The keys of a JWT's issuer cannot be had. @internal */
export class KeysUnavailable extends Error {
  override readonly name = 'KeysUnavailable'
}

/** The issuer's keys: given, or read from its URL and kept. @internal */
export class IssuerKeys {
  readonly #jose: Jose
  readonly #url: string | undefined
  readonly #now: () => number
  readonly #reading = new SingleFlight(() => this.#read())
  #keys: LocalJWKSet | undefined
  #readAt = -Infinity
  #triedAt = -Infinity
  #failure: { readonly error: KeysUnavailable; readonly at: number } | undefined

  /** `jwks` is a URL, or the keys themselves. */
  constructor(jose: Jose, jwks: string | JSONWebKeySet, now: () => number) {
    this.#jose = jose
    this.#now = now
    if (typeof jwks === 'string') this.#url = checkKeysUrl(jwks)
    else this.#keys = jose.createLocalJWKSet(checkKeys(jwks))
  }

  /** Finds the key of a token, for `jwtVerify`. Rejects with KeysUnavailable where none can be had. */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    const known = await this.#known()
    try {
      return await known(header, token)
    } catch (error) {
      if (this.#url === undefined || !(error instanceof this.#jose.errors.JWKSNoMatchingKey)) throw error
      // The issuer may have begun to use a new key.
      if (this.#now() - this.#triedAt < againMs) throw error
      await this.#reading.opened()
      return (await this.#known())(header, token)
    }
  }

  async #known(): Promise<LocalJWKSet> {
    const ageMs = this.#now() - this.#readAt
    const isDue = this.#url !== undefined && ageMs >= freshMs && this.#now() - this.#triedAt >= againMs
    if (this.#keys !== undefined && (this.#url === undefined || ageMs < countMs)) {
      // Nobody waits for keys that are only to be refreshed.
      if (isDue) void this.#reading.opened().catch(() => {})
      return this.#keys
    }
    if (this.#failure !== undefined && this.#now() - this.#failure.at < againWithoutMs) throw this.#failure.error
    await this.#reading.opened()
    if (this.#keys === undefined) throw new KeysUnavailable('The keys were not read.')
    return this.#keys
  }

  async #read(): Promise<void> {
    this.#triedAt = this.#now()
    try {
      const signal = AbortSignal.timeout(withinMs)
      const response = await fetch(this.#url as string, {
        signal,
        redirect: 'error',
        headers: { accept: 'application/json' },
      })
      if (response.status !== 200) throw new Error(`it answered ${response.status}`)
      this.#keys = this.#jose.createLocalJWKSet(checkKeys(JSON.parse(await textOf(response))))
      this.#readAt = this.#now()
      this.#failure = undefined
    } catch (error) {
      const unavailable = new KeysUnavailable(`The keys at ${this.#url} cannot be read: ${messageOf(error)}`)
      this.#failure = { error: unavailable, at: this.#now() }
      throw unavailable
    }
  }
}

async function textOf(response: Response): Promise<string> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of response.body ?? []) {
    bytes += piece.length
    if (bytes > bytesMax) throw new Error('it is longer than 1 MiB')
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

function checkKeysUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname))
  if (url !== undefined && isSafe && url.username === '' && url.password === '') return text
  throw badSetting('jwks is a file of keys, or a URL that begins with https:// and has no password in it.')
}

/** Public keys only: with a shared secret, whoever can check a token could make one. */
function checkKeys(given: unknown): JSONWebKeySet {
  const { keys } = (typeof given === 'object' && given !== null ? given : {}) as { readonly keys?: unknown }
  if (!Array.isArray(keys) || keys.length === 0) throw badSetting('A JWKS is { "keys": […] }, with one at least.')
  const isSecret = (key: unknown): boolean => {
    const { kty, d, k } = (key ?? {}) as Readonly<Record<string, unknown>>
    return kty === 'oct' || d !== undefined || k !== undefined
  }
  if (keys.some(isSecret)) throw badSetting('The JWKS has a secret or private key. Give the public keys only.')
  return given as JSONWebKeySet
}

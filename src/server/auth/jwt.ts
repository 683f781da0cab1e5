import { createHash } from 'node:crypto'
import type { JSONWebKeySet, JWTPayload } from 'jose'
import type { Logger } from '../../api/client/logger.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { loadFirst } from '../../core/machine/optional-package.ts'
import type { Environment } from '../../core/time/environment.ts'
import { HttpError } from '../contract/http-error.ts'
import { SignInError } from './authenticator.ts'
import { allRights, isNamespace, principalWith, type GrantOptions } from './grants.ts'
import { IssuerKeys, KeysUnavailable, type Jose } from './jwt-keys.ts'
import { checkJwt, type JwtClaimValue, type JwtGrantOptions, type JwtOptions } from './jwt-options.ts'
import type { SignIn } from './tokens.ts'

const algorithmsDefault: readonly string[] = ['RS256', 'PS256', 'ES256', 'EdDSA']
const clockToleranceDefaultMs = 30_000
const nameForm = /^[\x21-\x7e]{1,255}$/

/** A JWT that was verified is not verified again for so long. */
const verifiedMs = 60_000
const verifiedMax = 10_000
const longestToken = 8192
const warnEveryMs = 60_000

/** Verifies JWTs. @internal */
export class JwtVerifier {
  readonly #options: JwtOptions
  readonly #jose: Jose
  readonly #keys: IssuerKeys
  readonly #environment: Pick<Environment, 'now' | 'wall'>
  readonly #logger: Logger | undefined
  readonly #verified = new Map<string, { readonly signIn: SignIn; readonly until: number }>()
  #warnedAt = -Infinity
  /** Differs from that of every other verifier, so that what one has let in is looked at again by the next. */
  readonly #generation: string

  private constructor(options: JwtOptions, jose: Jose, { environment, logger }: JwtParts) {
    this.#options = options
    this.#jose = jose
    this.#environment = environment
    this.#logger = logger
    this.#keys = new IssuerKeys(jose, options.jwks as string | JSONWebKeySet, () => environment.now())
    this.#generation = `jwt ${environment.id()} `
  }

  /** Loads the package `jose`. Rejects where it is missing, or the options make no sense. */
  static async load(options: JwtOptions, parts: JwtParts): Promise<JwtVerifier> {
    const checked = checkJwt(options)
    const { module } = await loadFirst('jwt', [{ name: 'jose', fits: ['6'] }])
    return new JwtVerifier(checked, module as Jose, parts)
  }

  /** Rejects with SignInError, or with 503 where the issuer's keys cannot be had. */
  async signIn(token: string): Promise<SignIn> {
    if (token.length > longestToken) throw new SignInError('The JWT is too long.')
    const digest = createHash('sha256').update(token).digest('hex')
    const now = this.#environment.now()
    const known = this.#verified.get(digest)
    if (known !== undefined && now < known.until) return known.signIn
    const signIn = this.#signInOf(await this.#verify(token), digest)
    this.#verified.delete(digest)
    this.#verified.set(digest, { signIn, until: now + verifiedMs })
    if (this.#verified.size > verifiedMax)
      for (const oldest of this.#verified.keys()) {
        this.#verified.delete(oldest)
        break
      }
    return signIn
  }

  stillTakes({ credential }: SignIn): boolean {
    return credential.startsWith(this.#generation)
  }

  async #verify(token: string): Promise<JWTPayload> {
    const { issuer, audience, algorithms = algorithmsDefault } = this.#options
    try {
      const { payload } = await this.#jose.jwtVerify(token, this.#keys.find, {
        issuer,
        audience: typeof audience === 'string' ? audience : [...audience],
        algorithms: [...algorithms],
        clockTolerance: this.#toleranceMs / 1000,
        currentDate: new Date(this.#environment.wall()),
        // A token without an end could never be revoked but by its key.
        requiredClaims: ['exp', this.#nameClaim],
      })
      return payload
    } catch (error) {
      if (error instanceof KeysUnavailable) {
        this.#warn(error.message)
        const message = "The keys of the JWT's issuer cannot be read. The server's log says why."
        throw new HttpError(
          503,
          'token',
          new LeaseholdError('UNAVAILABLE', message, { reason: 'network', retryAfterMs: 1000 }),
        )
      }
      throw new SignInError(`The JWT is not taken: ${faultOf(error)}.`)
    }
  }

  /** Everybody can send a JWT: the log is for people. */
  #warn(message: string): void {
    const now = this.#environment.now()
    if (now - this.#warnedAt < warnEveryMs) return
    this.#warnedAt = now
    this.#logger?.warn(message)
  }

  #signInOf(claims: JWTPayload, digest: string): SignIn {
    const name = claims[this.#nameClaim]
    if (typeof name !== 'string' || !nameForm.test(name)) {
      throw new SignInError(`The JWT is not taken: its claim ${this.#nameClaim} is no printable name.`)
    }
    // No JWT may pass for a token of ours.
    const principalName = `jwt:${name}`
    const grants = this.#options.grants.flatMap((grant) => grantFor(grant, claims) ?? [])
    if (grants.length === 0)
      throw new SignInError('The JWT is not taken: no grant of this server is for it.', principalName)
    return {
      principal: principalWith(principalName, grants),
      expiresAt: (claims.exp as number) * 1000 + this.#toleranceMs,
      rate: this.#options.rate,
      credential: `${this.#generation}${digest}`,
      stamp: '',
    }
  }

  get #nameClaim(): string {
    return this.#options.nameClaim ?? 'sub'
  }

  get #toleranceMs(): number {
    return this.#options.clockToleranceMs ?? clockToleranceDefaultMs
  }
}

/** What a verifier works with. @internal */
export interface JwtParts {
  readonly environment: Pick<Environment, 'now' | 'wall' | 'id'>
  readonly logger: Logger | undefined
}

/** What a grant allows the bearer of these claims; undefined if it is not for it. */
function grantFor(grant: JwtGrantOptions, claims: JWTPayload): GrantOptions | undefined {
  const { when = {}, namespacesClaim, rightsClaim, namespaces, prefixes, rights } = grant
  if (!Object.entries(when).every(([name, wanted]) => isAmong(claims[name], wanted))) return undefined
  // What a claim says is data: '*' there is no namespace, and no way to all of them.
  const named = namespacesClaim === undefined ? namespaces : textsIn(claims[namespacesClaim]).filter(isNamespace)
  const given =
    rightsClaim === undefined ? rights : allRights.filter((right) => textsIn(claims[rightsClaim]).includes(right))
  const isEmpty = (named === undefined || named.length === 0) && prefixes === undefined
  if (isEmpty || given === undefined || given.length === 0) return undefined
  return { namespaces: named, prefixes, rights: given }
}

function isAmong(claim: unknown, wanted: JwtClaimValue | readonly JwtClaimValue[]): boolean {
  const allowed: readonly unknown[] = Array.isArray(wanted) ? wanted : [wanted]
  return Array.isArray(claim) ? claim.some((value) => allowed.includes(value)) : allowed.includes(claim)
}

function textsIn(claim: unknown): readonly string[] {
  if (typeof claim === 'string') return claim.split(' ')
  return Array.isArray(claim) ? claim.filter((value) => typeof value === 'string') : []
}

const faults: Readonly<Record<string, string>> = {
  ERR_JWT_EXPIRED: 'it has expired',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'its signature is wrong',
  ERR_JOSE_ALG_NOT_ALLOWED: 'its algorithm is not allowed',
  ERR_JWKS_NO_MATCHING_KEY: 'none of the issuer’s keys fits it',
  ERR_JWKS_MULTIPLE_MATCHING_KEYS: 'it does not say which of the issuer’s keys is meant',
}

function faultOf(error: unknown): string {
  const {
    code = '',
    claim,
    reason,
  } = error as { readonly code?: string; readonly claim?: string; readonly reason?: string }
  if (code === 'ERR_JWT_CLAIM_VALIDATION_FAILED') {
    return reason === 'missing' ? `it lacks the claim ${claim}` : `its claim ${claim} does not fit`
  }
  return faults[code] ?? 'it is not a valid JWT'
}

import { allRights, badSetting, checkFields, checkGrant, checkTexts, type GrantOptions } from './grants.ts'
import { checkRate, type RateOptions } from './rate-limits.ts'

/** Rights for the bearers of some JWTs. */
export interface JwtGrantOptions extends Partial<GrantOptions> {
  /** Claims that the JWT must have, each with this value or one of these; a claim that is a list must contain one. Default: any JWT. */
  readonly when?: Readonly<Record<string, JwtClaimValue | readonly JwtClaimValue[]>> | undefined
  /** The claim that lists the namespaces, instead of `namespaces`: a list, or text with spaces between. */
  readonly namespacesClaim?: string | undefined
  /** The claim that lists the rights, instead of `rights`. */
  readonly rightsClaim?: string | undefined
}

/** What a claim of a JWT may be compared with. */
export type JwtClaimValue = string | number | boolean

/** Which JWTs are taken, and what their bearers may do. */
export interface JwtOptions {
  /** The claim `iss`, exactly. */
  readonly issuer: string
  /** The claim `aud`: one of these. */
  readonly audience: string | readonly string[]
  /** The issuer's public keys (JWKS), or their URL: https, or http on this machine. */
  readonly jwks: string | { readonly keys: readonly object[] }
  /**
   * The algorithms that are taken; never `none` or one with a shared secret.
   *
   * @default ['RS256', 'PS256', 'ES256', 'EdDSA']
   */
  readonly algorithms?: readonly string[] | undefined
  /**
   * How far the issuer's clock may be off.
   *
   * @default 30_000
   */
  readonly clockToleranceMs?: number | undefined
  /**
   * The claim that names the bearer, in logs, the audit and `metadata.via` of claims.
   *
   * @default 'sub'
   */
  readonly nameClaim?: string | undefined
  /** What the bearers may do: all grants whose `when` fits count together. */
  readonly grants: readonly JwtGrantOptions[]
  /** The rate limit of each bearer, instead of the one for all tokens. */
  readonly rate?: RateOptions | undefined
}

const jwtFields: Readonly<Record<keyof JwtOptions, true>> = {
  issuer: true,
  audience: true,
  jwks: true,
  algorithms: true,
  clockToleranceMs: true,
  nameClaim: true,
  grants: true,
  rate: true,
}
const grantFields: Readonly<Record<keyof JwtGrantOptions, true>> = {
  when: true,
  namespaces: true,
  prefixes: true,
  rights: true,
  namespacesClaim: true,
  rightsClaim: true,
}
const algorithmsKnown: ReadonlySet<string> = new Set(
  'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519'.split(' '),
)
const clockToleranceMaxMs = 300_000

/** Checks options from outside, such as a file. @internal */
export function checkJwt(given: unknown): JwtOptions {
  const { issuer, audience, jwks, algorithms, clockToleranceMs, nameClaim, grants, rate } = checkFields(
    given,
    jwtFields,
    'jwt',
  )
  if (typeof issuer !== 'string' || issuer === '') throw badSetting('jwt needs an issuer: what the claim iss says.')
  if (typeof audience !== 'string' || audience === '')
    checkTexts(audience, 'The audience of jwt: what the claim aud says; several')
  if (typeof jwks !== 'string' && typeof jwks !== 'object')
    throw badSetting('jwt needs jwks: the issuer’s keys, or their URL.')
  if (algorithms !== undefined) {
    const unknown = checkTexts(algorithms, 'The algorithms of jwt').find((name) => !algorithmsKnown.has(name))
    if (unknown !== undefined) {
      throw badSetting(
        `jwt cannot take the algorithm ${JSON.stringify(unknown)}. Use some of ${[...algorithmsKnown].join(', ')}.`,
      )
    }
  }
  const isTolerance = (value: unknown): boolean =>
    typeof value === 'number' && value >= 0 && value <= clockToleranceMaxMs
  if (clockToleranceMs !== undefined && !isTolerance(clockToleranceMs)) {
    throw badSetting(`The clockToleranceMs of jwt is 0 to ${clockToleranceMaxMs}.`)
  }
  if (nameClaim !== undefined && (typeof nameClaim !== 'string' || nameClaim === ''))
    throw badSetting('The nameClaim of jwt is the name of a claim.')
  if (!Array.isArray(grants) || grants.length === 0)
    throw badSetting('jwt needs grants: a list of { when, namespaces, rights }.')
  for (const grant of grants) checkJwtGrant(grant)
  if (rate !== undefined) checkRate(rate, 'The rate of jwt')
  return given as JwtOptions
}

function checkJwtGrant(given: unknown): void {
  const subject = 'A grant of jwt'
  const grant = checkFields(given, grantFields, subject)
  for (const name of ['namespacesClaim', 'rightsClaim']) {
    const claim = grant[name]
    if (claim !== undefined && (typeof claim !== 'string' || claim === ''))
      throw badSetting(`${subject}: ${name} is the name of a claim.`)
    const instead = name.replace('Claim', '')
    if (claim !== undefined && grant[instead] !== undefined)
      throw badSetting(`${subject} needs either ${instead} or ${name}.`)
  }
  const { when = {}, namespacesClaim, rightsClaim } = grant
  const isValue = (value: unknown): boolean => ['string', 'number', 'boolean'].includes(typeof value)
  const isCondition = (value: unknown): boolean =>
    Array.isArray(value) ? value.length > 0 && value.every(isValue) : isValue(value)
  if (typeof when !== 'object' || when === null || !Object.values(when).every(isCondition)) {
    throw badSetting(`${subject}: when is { CLAIM: VALUE } or { CLAIM: [VALUE, …] }.`)
  }
  checkGrant(
    {
      ...grant,
      ...(namespacesClaim !== undefined && { namespaces: '*' }),
      ...(rightsClaim !== undefined && { rights: allRights }),
    },
    subject,
  )
}

import { LeaseholdError } from '../../core/errors.ts'
import type { Environment } from '../../core/time/environment.ts'
import { HttpError } from '../contract/http-error.ts'
import type { JwtVerifier } from './jwt.ts'
import type { SignIn, TokenBook } from './tokens.ts'

/** What a caller shows of itself. @internal */
export interface Credentials {
  /** The header of that name. */
  readonly authorization: string | undefined
  /** The names in its client certificate, if that was verified: `dns:worker.example`. */
  readonly certificateNames: readonly string[]
}

/** A caller who is not let in. `tokenName` is known if the token is ours and no longer good. @internal */
export class SignInError extends HttpError {
  readonly tokenName: string | undefined

  constructor(message: string, tokenName?: string) {
    const error = new LeaseholdError('UNAVAILABLE', message, { reason: 'auth' })
    super(401, 'token', error, { 'www-authenticate': 'Bearer' })
    this.tokenName = tokenName
  }
}

/** Says who a caller is: by a token, else by a JWT, else by its client certificate. @internal */
export class Authenticator {
  readonly tokens: TokenBook | undefined
  readonly jwt: JwtVerifier | undefined
  readonly #environment: Pick<Environment, 'wall'>

  constructor(tokens: TokenBook | undefined, jwt: JwtVerifier | undefined, environment: Pick<Environment, 'wall'>) {
    this.tokens = tokens
    this.jwt = jwt
    this.#environment = environment
  }

  /** Rejects with SignInError. A token that is sent must be good, whatever the certificate says. */
  async signIn({ authorization, certificateNames }: Credentials): Promise<SignIn> {
    if (authorization !== undefined) return this.#current(await this.#byBearer(authorization))
    const found = this.tokens?.findCertificate(certificateNames)
    if (found !== undefined) return this.#current(found)
    if (certificateNames.length > 0) throw new SignInError('The certificate stands for no token of this server.')
    throw new SignInError('This server wants a token. Send it as Authorization: Bearer TOKEN.')
  }

  /** Whether what was good when a caller signed in is so now. */
  stillTakes(signIn: SignIn): boolean {
    if (this.#environment.wall() >= signIn.expiresAt) return false
    return this.tokens?.stillTakes(signIn) === true || this.jwt?.stillTakes(signIn) === true
  }

  async #byBearer(authorization: string): Promise<SignIn> {
    const [, token] = /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization) ?? []
    const found = token === undefined ? undefined : this.tokens?.find(token)
    if (found !== undefined) return found
    if (token === undefined || this.jwt === undefined || !jwtForm.test(token)) {
      throw new SignInError('This server does not know the token.')
    }
    return this.jwt.signIn(token)
  }

  #current(signIn: SignIn): SignIn {
    if (this.#environment.wall() < signIn.expiresAt) return signIn
    const { name } = signIn.principal
    throw new SignInError(`The token ${JSON.stringify(name)} has expired.`, name)
  }
}

const jwtForm = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/

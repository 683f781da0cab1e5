import { LeaseholdError } from '../../core/errors.ts'
import { environmentVariable } from '../../core/machine/runtime.ts'
import type { S3Options } from './options.ts'
import type { S3Credentials } from './signature.ts'

/** New credentials are asked for so long before the old ones end. */
const renewedBeforeMs = 60_000

/** The credentials of a driver: asked for when they are needed, and kept until shortly before they end. */
export class CredentialSource {
  readonly #given: S3Options['credentials']
  #fixed: S3Credentials | undefined
  #asked: Promise<S3Credentials> | undefined

  constructor(given: S3Options['credentials']) {
    this.#given = given
  }

  async current(): Promise<S3Credentials> {
    if (typeof this.#given !== 'function') return (this.#fixed ??= checked(this.#given ?? fromEnvironment()))
    const asked = (this.#asked ??= this.#given().then(checked))
    try {
      const credentials = await asked
      const endsAt = credentials.expiration?.getTime() ?? Infinity
      if (Date.now() >= endsAt - renewedBeforeMs) this.#forget(asked)
      return credentials
    } catch (error) {
      this.#forget(asked)
      throw error
    }
  }

  /** S3 refused them. */
  forget(): void {
    this.#asked = undefined
  }

  #forget(asked: Promise<S3Credentials>): void {
    if (this.#asked === asked) this.#asked = undefined
  }
}

function fromEnvironment(): S3Credentials | undefined {
  const accessKeyId = environmentVariable('AWS_ACCESS_KEY_ID')
  const secretAccessKey = environmentVariable('AWS_SECRET_ACCESS_KEY')
  const sessionToken = environmentVariable('AWS_SESSION_TOKEN')
  if (!accessKeyId || !secretAccessKey) return undefined
  return { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) }
}

function checked(credentials: S3Credentials | undefined): S3Credentials {
  const { accessKeyId, secretAccessKey } = credentials ?? {}
  if (credentials !== undefined && isText(accessKeyId) && isText(secretAccessKey)) {
    for (const name of ['accessKeyId', 'secretAccessKey', 'sessionToken'] as const) {
      // `fetch` would print the header that it refuses.
      if (/[^\u0021-\u007e]/.test(credentials[name] ?? '')) throw unusable(name)
    }
    return credentials
  }
  throw new LeaseholdError(
    'UNAVAILABLE',
    'There are no credentials for S3. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass `credentials`, a function for roles, or a `client`.',
    { reason: 'auth' },
  )
}

function unusable(name: string): LeaseholdError {
  return new LeaseholdError(
    'UNAVAILABLE',
    `The ${name} for S3 has a space, a line break or another character that none has. Copy it anew, without the line's end.`,
    { reason: 'auth' },
  )
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

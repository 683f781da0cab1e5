import { LeaseholdError } from '../../core/errors.ts'
import { decodedPart, hostText } from '../kit/url.ts'

/** Where a Leasehold server is, and what to show at its door. */
export interface ServerAddress {
  readonly secure: boolean
  readonly host: string
  readonly port: number
  /** What comes before the server's own paths, without a slash at its end. */
  readonly path: string
  readonly token: string | undefined
}

const tokenForm = /^[\x21-\x7e]{1,8192}$/

/**
 * Reads `http(s)://[TOKEN@]HOST[:PORT][/PATH]`. Ports are those of any URL: 80 and 443 by default. `tokenDefault` is for a URL
 * without a token.
 */
export function parseServerUrl(url: string, token: string | undefined, tokenDefault?: string): ServerAddress {
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined
  const secure = parsed?.protocol === 'https:'
  if (parsed === undefined || (!secure && parsed.protocol !== 'http:') || parsed.hostname === '') {
    throw invalid('The URL of a Leasehold server is http://HOST:PORT or https://HOST, with TOKEN@ before the host.')
  }
  if (parsed.password !== '')
    throw invalid('A Leasehold server takes a token, not user and password: https://TOKEN@HOST.')
  if (parsed.search !== '' || parsed.hash !== '') throw invalid('The URL of a Leasehold server ends with its path.')
  const shown =
    token ??
    (parsed.username === ''
      ? tokenDefault
      : decodedPart(parsed.username, () => invalid('The token in the URL is not well encoded.')))
  if (shown !== undefined && !tokenForm.test(shown)) throw invalid('The token has characters that no token has.')
  return {
    secure,
    host: parsed.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: parsed.port === '' ? (secure ? 443 : 80) : Number(parsed.port),
    path: parsed.pathname.replace(/\/+$/, ''),
    token: shown,
  }
}

/** The address for people: without the token. */
export function describeServer({ secure, host, port, path }: ServerAddress): string {
  return `${secure ? 'https' : 'http'}://${hostText({ host, port })}${path}`
}

function invalid(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', message)
}

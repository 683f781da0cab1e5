import type { IncomingMessage } from 'node:http'
import { LeaseholdError } from '../../core/errors.ts'
import { knownHeader, leaseHeader, sessionHeader, storeHeader } from '../../core/wire/replies.ts'
import type { Answer } from '../contract/call.ts'
import { invalid, HttpError } from '../contract/http-error.ts'

const answeredFor = {
  'access-control-allow-methods': 'GET, POST, PUT, DELETE',
  'access-control-allow-headers': ['authorization', 'content-type', sessionHeader, knownHeader, leaseHeader].join(', '),
  // What browsers keep at most.
  'access-control-max-age': '7200',
}

/** Headers of answers that pages may read. */
const exposed = [storeHeader, 'retry-after'].join(', ')

/** Origins whose pages may call this server from a browser, and read what it answers. A server without any says nothing of them. */
export class AllowedOrigins {
  readonly #origins: ReadonlySet<string>

  constructor(origins: readonly string[]) {
    if (!Array.isArray(origins)) throw new LeaseholdError('INVALID', "corsOrigins is a list: ['https://app.example'].")
    const wrong = origins.find((origin) => !isOrigin(origin))
    if (wrong !== undefined) throw notAnOrigin(wrong)
    this.#origins = new Set(origins)
  }

  /** The headers that let the page read an answer. Every answer says that it differs by origin. */
  headersFor({ headers: { origin } }: IncomingMessage): Readonly<Record<string, string>> {
    if (this.#origins.size === 0) return {}
    if (origin === undefined || !this.#origins.has(origin)) return { vary: 'origin' }
    return { vary: 'origin', 'access-control-allow-origin': origin, 'access-control-expose-headers': exposed }
  }

  /** The answer to a browser that asks on behalf of an allowed page, before it calls; undefined for everything else. */
  preflight({ method, headers }: IncomingMessage): Answer | undefined {
    const { origin } = headers
    if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) return undefined
    if (origin === undefined || !this.#origins.has(origin)) return undefined
    return { status: 204, headers: answeredFor, body: '' }
  }
}

/** Written as a browser sends it: scheme, host and port, and nothing behind them. */
function isOrigin(origin: unknown): boolean {
  if (typeof origin !== 'string' || !URL.canParse(origin)) return false
  return /^https?:/.test(origin) && new URL(origin).origin === origin
}

function notAnOrigin(origin: unknown): LeaseholdError {
  const advice = 'Write it as a browser does: https://app.example, or http://localhost:5173, each by itself.'
  return new LeaseholdError('INVALID', `corsOrigins has ${JSON.stringify(origin)}, which is no origin. ${advice}`)
}

/** Whether an address, or a name for one, can only be this machine. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, '$1')
  return name === 'localhost' || name.endsWith('.localhost') || name === '::1' || /^127(\.\d{1,3}){3}$/.test(name)
}

/**
 * Refuses a call that came under a name other than this machine's own. A page of another site can have its own name lead
 * here (DNS rebinding), and its browser would then let it read what we answer; but it cannot change the name it sends.
 */
export function checkHost(host: string | undefined): void {
  if (host === undefined) throw invalid('A call needs the header Host.')
  if (isLoopback(host.replace(/:\d*$/, ''))) return
  const message = `This server has no tokens and answers to localhost only, not to ${JSON.stringify(host)}.`
  throw new HttpError(403, 'host', new LeaseholdError('UNAVAILABLE', message, { reason: 'auth' }))
}

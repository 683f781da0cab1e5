import type { Request } from '../../src/core/contract/driver.ts'
import { seededRandom } from '../../src/testing/random.ts'

/** A call of HTTP whose form is right. */
export interface FuzzedCall {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  readonly body: string | undefined
}

/** Values that programs forget. */
const oddValues: readonly unknown[] = [
  null,
  true,
  0,
  -0,
  -1,
  0.5,
  1e308,
  2 ** 53,
  -(2 ** 53),
  31_536_000_001,
  '',
  ' ',
  '\0',
  '\uD800',
  '\u202E\u001B[2J',
  'a'.repeat(5000),
  '__proto__',
  '/',
  'hostile/',
  'victim/named:a',
  'hostile/named:a/../b',
  [],
  {},
  [[]],
  { toString: 1 },
  'NaN',
  '9'.repeat(400),
]
const paths: readonly string[] = [
  '/v1/requests',
  '/v1/keys',
  '/v1/store',
  '/v1/notifications',
  '/openapi.json',
  '/metrics',
  '/livez',
  '/healthz',
  '/v1/locks',
  '/v1/principal',
  '/dashboard/access',
  '/',
  '/v1/audit',
  '/v1/cycles',
  '/v1/evictions',
]
/** One lock a call. */
const lockPaths: readonly string[] = [
  '/v1/locks/hostile/a',
  '/v1/locks/hostile/a%2Fb/renew',
  '/v1/locks/hostile/%00',
  '/v1/locks/victim/a',
  '/v1/locks//a',
]
/** None that lets a call wait for long. */
const lockQueries: readonly string[] = [
  '',
  '?ttl=1s',
  '?ttl=1ms',
  '?wait=20ms',
  '?ttl=30',
  '?mode=shared&limit=2',
  '?limit=0',
  '?wait=2h',
  '?priority=x',
]
const queryNames: readonly string[] = [
  'key',
  'prefix',
  'after',
  'limit',
  'claims',
  'state',
  'q',
  'namespace',
  '',
  '__proto__',
  'constructor',
]

/** Inputs for a server, from a seed: the same seed gives the same inputs in the same order. */
export class FuzzedInputs {
  readonly #random: () => number
  readonly #token: string

  constructor(seed: number, token: string) {
    this.#random = seededRandom(seed)
    this.#token = token
  }

  /** Bytes for a raw socket, one character each: calls that are cut, repeated, joined and changed. */
  bytes(): string {
    let text = this.#rawCall()
    for (let changes = this.#below(4); changes > 0; changes -= 1) text = this.#changed(text)
    return text.slice(0, 60_000)
  }

  /** A call with JSON or a query whose parts are changed. */
  call(): FuzzedCall {
    if (this.#below(4) === 0) return { method: 'GET', path: this.#path(), body: undefined }
    if (this.#below(5) === 0) return this.#lockCall()
    const body = this.#body()
    const path = this.#below(10) === 0 ? '/v1/evictions' : '/v1/requests'
    return { method: 'POST', path, body: this.#below(5) === 0 ? this.#changed(body) : body }
  }

  #lockCall(): FuzzedCall {
    const path = this.#pick(lockPaths) + this.#pick(lockQueries)
    const metadata = this.#mutated({ metadata: { job: 'nightly', list: [1, { deep: true }] } })
    const body = this.#below(2) === 0 ? undefined : (JSON.stringify(metadata) ?? 'null')
    return { method: this.#pick(['PUT', 'PUT', 'POST', 'DELETE', 'GET']), path, body }
  }

  #rawCall(): string {
    // Half of them are right until their text is changed, so that they get past the parser.
    if (this.#below(2) === 0) return this.#plainCall()
    const body = this.#below(2) === 0 ? this.#body() : ''
    const method = this.#pick(['GET', 'POST', 'HEAD', 'PUT', 'OPTIONS', 'CONNECT', 'TRACE', 'get', 'G\0T', ''])
    const version = this.#pick(['HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0', 'HTTP/9', ''])
    const heads = [
      'host: localhost',
      `authorization: Bearer ${this.#token}`,
      'content-type: application/json',
      `content-length: ${this.#pick([String(Buffer.byteLength(body)), '0', '-1', '1e9', '99999999999999999999', '3'])}`,
      'transfer-encoding: chunked',
      'connection: upgrade',
      'upgrade: websocket',
      'expect: 100-continue',
      'expect: odd',
      `leasehold-session: ${this.#pick(['a'.repeat(22), 'a', '', 'ä'.repeat(30)])}`,
      'origin: null',
      'access-control-request-method: POST',
      'x-forwarded-for: ::1, 1.2.3.4',
      `${'x'.repeat(this.#below(300))}: ${'y'.repeat(this.#below(20_000))}`,
      ' folded: yes',
      'no colon',
    ].filter((_, index) => this.#below(3) < (index < 4 ? 2 : 1))
    const lineEnd = this.#below(20) === 0 ? '\n' : '\r\n'
    const chunked = this.#below(4) === 0 ? `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n` : body
    return `${method} ${this.#path()} ${version}${lineEnd}${heads.join(lineEnd)}${lineEnd}${lineEnd}${chunked}`
  }

  #plainCall(): string {
    const { method, path, body = '' } = this.call()
    const heads = [
      'host: localhost',
      `authorization: Bearer ${this.#token}`,
      `leasehold-id: ${this.#pick(['a'.repeat(22), 'b'.repeat(128), 'short'])}`,
      ...(body === '' ? [] : ['content-type: application/json', `content-length: ${Buffer.byteLength(body)}`]),
    ]
    return `${method} ${path} HTTP/1.1\r\n${heads.join('\r\n')}\r\n\r\n${Buffer.from(body).toString('latin1')}`
  }

  #path(): string {
    const path = this.#pick(paths)
    if (this.#below(2) === 0) return path
    const pairs = Array.from({ length: 1 + this.#below(3) }, () => {
      const value = this.#below(2) === 0 ? this.#oddText() : this.#pick(['hostile/', 'hostile/named:a', '1', '1000'])
      return `${this.#pick(queryNames)}=${this.#below(10) === 0 ? '%zz' : encodeURIComponent(value)}`
    })
    return `${path}?${pairs.join('&')}`
  }

  #oddText(): string {
    return String(this.#pick(oddValues.filter((value) => typeof value !== 'object'))).toWellFormed()
  }

  #body(): string {
    const requests = Array.from({ length: 1 + this.#below(3) }, () => this.#request())
    let value: unknown = { requests }
    for (let changes = this.#below(4); changes > 0; changes -= 1) value = this.#mutated(value)
    const text = JSON.stringify(value) ?? 'null'
    return this.#below(50) === 0 ? '['.repeat(5000) + text : text
  }

  #request(): Request {
    const key = `hostile/named:${this.#below(50)}`
    const id = `id-${this.#below(200)}-0123456789abcdef`
    const ttlMs = this.#pick([1, 100, 1000, 30_000])
    const runner = { id: 'runner', incarnation: 'one', host: 'here', pid: 1, client: 'client', metadata: { note: 'x' } }
    return this.#pick<Request>([
      {
        op: 'claim',
        claim: {
          id,
          key,
          mode: this.#pick(['exclusive', 'shared']),
          priority: 0,
          wait: true,
          ttlMs,
          graceMs: 0,
          runner,
        },
      },
      {
        op: 'claim',
        claim: {
          id,
          key,
          mode: 'exclusive',
          range: { start: 0, end: 10 },
          priority: 5,
          wait: false,
          ttlMs,
          graceMs: 10,
          runner,
        },
      },
      {
        op: 'claim',
        claim: {
          id,
          key,
          mode: 'shared',
          limit: 3,
          replaces: `id-1-0123456789abcdef`,
          priority: 0,
          wait: true,
          ttlMs,
          graceMs: 0,
          runner,
        },
      },
      { op: 'renew', key, id, ttlMs, fenceFloor: 1 },
      { op: 'release', key, id },
      { op: 'withdraw', key, id },
      { op: 'evict', key, fence: 1, reason: 'fuzz' },
    ])
  }

  /** The value with one of its parts replaced, removed or added to. */
  #mutated(value: unknown): unknown {
    if (typeof value !== 'object' || value === null || this.#below(6) === 0) return this.#pick(oddValues)
    if (Array.isArray(value)) {
      const copy = [...(value as readonly unknown[])]
      const index = this.#below(copy.length)
      if (this.#below(5) === 0) copy.push(...copy)
      else copy[index] = this.#mutated(copy[index])
      return copy
    }
    const entries = Object.entries(value)
    if (entries.length === 0) return this.#pick(oddValues)
    const index = this.#below(entries.length)
    const [name, part] = entries[index] as [string, unknown]
    const choice = this.#below(8)
    if (choice === 0) entries.splice(index, 1)
    else if (choice === 1) entries.push([this.#pick(['__proto__', 'constructor', 'more', '']), this.#pick(oddValues)])
    else entries[index] = [name, this.#mutated(part)]
    return Object.fromEntries(entries)
  }

  /** The text with some of its characters changed, removed or repeated. */
  #changed(text: string): string {
    const at = this.#below(text.length)
    const length = this.#below(30)
    const rest = text.slice(at + length)
    const before = text.slice(0, at)
    const piece = text.slice(at, at + length)
    return this.#pick([
      () => before,
      () => before + rest,
      () => before + piece + piece + rest,
      () => before + String.fromCharCode(this.#below(256)) + text.slice(at + 1),
      () => before + Array.from(piece, () => String.fromCharCode(this.#below(256))).join('') + rest,
      () => text + text,
      () => before + this.#pick(['\r\n\r\n', '\0', '\r', '\n', '"', '{', '}', '\\', '%00']) + piece + rest,
    ])()
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count)
  }

  #pick<Value>(values: readonly Value[]): Value {
    return values.at(this.#below(values.length)) as Value
  }
}

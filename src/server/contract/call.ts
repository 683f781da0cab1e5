import type { IncomingHttpHeaders } from 'node:http'
import type { Optional, Schema } from '../../core/wire/schema.ts'

/**
 * What a token may do. `read`: see locks, holders and queues. `lock`: claim, renew, release. `evict`: end the claims of
 * others, and claim by a rule that takes from a live holder. `admin`: all of that, lift fences past the clock, and see the
 * counts of every token.
 */
export type Right = 'read' | 'lock' | 'evict' | 'admin'

/** Who makes a call, as its token says. */
export interface Principal {
  /** For logs, the audit and the metadata of claims. Never the token itself. */
  readonly name: string
  /** The rights that it has for some key at least. */
  readonly rights: ReadonlySet<Right>
  /** Whether it has any right for some key of a namespace. */
  covers(namespace: string): boolean
  /** Whether it has the right for a key, and for all keys that begin with that text. */
  may(right: Right, key: string): boolean
}

/** Who makes a call, and from where: what is authorized, and what the audit says. */
export interface Caller {
  readonly principal: Principal
  /** The address of the caller, or of the last proxy that is not trusted. */
  readonly address: string
  /** Aborts when the caller has gone, and when its token is revoked or expires. */
  readonly signal?: AbortSignal | undefined
}

/** One HTTP request, read and allowed. */
export interface Call extends Caller {
  readonly headers: IncomingHttpHeaders
  readonly query: URLSearchParams
  /** What stands in the path for each `{part}` of the route's, decoded. */
  readonly parameters: Readonly<Record<string, string>>
  /** What the call came with: JSON, read and no more. Undefined: nothing. */
  readonly body: unknown
  readonly signal: AbortSignal
  /** Counts this many requests more against the token's rate limit: a call counts as one. */
  charge(requests: number): void
  /**
   * Resolves when it is this caller's turn once more. To be awaited before each piece of long work, such as reading a page of the store:
   * in one turn of the event loop a caller gets one such piece done. Rejects if the caller has gone.
   */
  turn(): Promise<void>
}

/** How a route goes about long work, piece by piece. */
export type Pace = Pick<Call, 'charge' | 'turn'>

/** What a route answers. Made by `json`, `text`, `fixed` or `events`. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Text, bytes, or a stream of server-sent events that goes on until either side ends it. */
  readonly body: string | Uint8Array | EventFeed
  /** Called if the caller has gone before the answer was handed to the network. Must not throw. */
  readonly onUnsent?: (() => void) | undefined
}

/** Writes server-sent events to a caller, from when it is attached. */
export interface EventFeed {
  /** Called once. What it returns is disposed of when the caller has gone, the server closes, or after `end`. */
  attach(send: (event: string, data: unknown) => void, end: () => void): Disposable
}

/** JSON Schema, in the dialect of OpenAPI 3.1. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** What a route takes and gives, for the OpenAPI document: as JSON Schema, or as the server's own routes describe it. */
export interface RouteSchema {
  /** The parts of the path, by name. */
  readonly path?: Readonly<Record<string, JsonSchema>> | undefined
  /** By name; all of them may be left out unless `required` names them. */
  readonly query?: Readonly<Record<string, Schema | Optional | JsonSchema>> | undefined
  readonly headers?: Readonly<Record<string, JsonSchema>> | undefined
  readonly required?: readonly string[] | undefined
  readonly body?: Schema | JsonSchema | undefined
  /** The answer with status 200, and its type if that is not JSON. */
  readonly answer?: Schema | JsonSchema | undefined
  readonly answerType?: string | undefined
  /** What readers of the document are shown: parameters by name, the body, the answer, a problem. */
  readonly examples?: RouteExamples | undefined
}

/** Examples for the OpenAPI document. */
export interface RouteExamples {
  readonly parameters?: Readonly<Record<string, string | number>> | undefined
  readonly body?: unknown
  readonly answer?: unknown
  readonly problem?: unknown
}

/** One thing the server can be asked for. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Matched whole. `{name}` stands for one part of a path; the last of several, for whatever is left, slashes and all. */
  readonly path: string
  /** The right that the token needs. `token`: any token will do, and the route checks further. `anybody`: no token is needed. */
  readonly right: Right | 'token' | 'anybody'
  /** For the OpenAPI document: what it is for, in one sentence. */
  readonly summary: string
  /** For the OpenAPI document: what it takes and gives, as JSON Schema. */
  readonly schema?: RouteSchema | undefined
  /** False: it is not for programs, and so not in the document. */
  readonly documented?: boolean | undefined
  /** True: answered also while as many calls are under way as may be, which is when operators need it most. */
  readonly always?: boolean | undefined
  /**
   * Whether the call comes with JSON.
   *
   * @default 'required' for POST, 'none' for all others
   */
  readonly takesBody?: 'required' | 'optional' | 'none' | undefined
  /**
   * Present: the answer may be long in coming, so the call needs a connection on which we see its caller go. Whether a call with these
   * parameters waits: such a call counts as a wait, any other as a call under way.
   */
  readonly waits?: ((query: URLSearchParams) => boolean) | undefined
  /** True: errors are problem documents (RFC 9457), for whatever begins as this path does. */
  readonly problems?: boolean | undefined
  handle(call: Call): Answer | Promise<Answer>
}

/** An answer of JSON. `undefined` fields are absent. */
export function json(value: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): Answer {
  return {
    status,
    headers: { ...headers, 'content-type': 'application/json; charset=utf-8' },
    body: JSON.stringify(value),
  }
}

/** An answer of text, of a type such as `text/html; charset=utf-8`. */
export function text(body: string, type = 'text/plain; charset=utf-8', status = 200): Answer {
  return { status, headers: { 'content-type': type }, body }
}

/** The same answer for every caller: its bytes are in memory once, however many callers do not read them. */
export function fixed({ status, headers, body }: Answer): Answer {
  return { status, headers, body: typeof body === 'string' ? Buffer.from(body) : body }
}

/** An answer that goes on: server-sent events. */
export function events(source: EventFeed): Answer {
  // A proxy that buffers would hold events back.
  return { status: 200, headers: { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' }, body: source }
}

/** Whether the body of an answer goes on. @internal */
export function isFeed(body: Answer['body']): body is EventFeed {
  return typeof body === 'object' && 'attach' in body
}

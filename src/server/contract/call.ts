import type { IncomingHttpHeaders } from 'node:http'
import type { Optional, Schema } from '../../core/wire/schema.ts'

/**
 * What a token may do. `lock`: claim, renew, release. `read`: see locks, holders and queues. `evict`: end the claims of
 * others, and claim by force.
 */
export type Right = 'lock' | 'read' | 'evict'

/** Who makes a call, as its token says. */
export interface Principal {
  /** For logs, the audit and the metadata of claims. Never the token itself. */
  readonly name: string
  readonly rights: ReadonlySet<Right>
  /** Whether it may touch a namespace. */
  covers(namespace: string): boolean
}

/** One HTTP request, read and allowed. */
export interface Call {
  readonly principal: Principal
  readonly headers: IncomingHttpHeaders
  readonly query: URLSearchParams
  /** What a POST came with: JSON, read and no more. */
  readonly body: unknown
  /** Aborts when the caller has gone. */
  readonly signal: AbortSignal
}

/** What a route answers. Made by `json`, `text` or `events`. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Text, or a stream of server-sent events that goes on until either side ends it. */
  readonly body: string | EventFeed
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
  /** By name; all of them may be left out unless `required` names them. */
  readonly query?: Readonly<Record<string, Schema | Optional | JsonSchema>> | undefined
  readonly headers?: Readonly<Record<string, JsonSchema>> | undefined
  readonly required?: readonly string[] | undefined
  readonly body?: Schema | JsonSchema | undefined
  /** The answer with status 200, and its type if that is not JSON. */
  readonly answer?: Schema | JsonSchema | undefined
  readonly answerType?: string | undefined
}

/** One thing the server can be asked for. */
export interface Route {
  readonly method: 'GET' | 'POST'
  /** Matched whole. */
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

/** An answer that goes on: server-sent events. */
export function events(source: EventFeed): Answer {
  // A proxy that buffers would hold events back.
  return { status: 200, headers: { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' }, body: source }
}

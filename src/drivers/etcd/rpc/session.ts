/** One connection to one node of etcd: gRPC over HTTP/2, one attempt and one deadline for each call. */
import {
  connect,
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
} from 'node:http2'
import type { ConnectionOptions } from 'node:tls'
import { timeLimit } from '../../../core/time/bounded.ts'
import { hostText, type HostAndPort } from '../../kit/url.ts'
import { answeredNo, CallFault, noAnswerFrom, unreachable } from './errors.ts'
import { frame, FrameReader } from './frames.ts'
import { calls } from './messages.ts'

export interface SessionSetup {
  readonly endpoint: HostAndPort
  /** Undefined: no TLS. */
  readonly tls: ConnectionOptions | undefined
}

/** A stream of messages in both directions. */
export interface MessageStream {
  send(message: Buffer): void
  close(): void
}

/** Room for what a busy watch may send before it is read. */
const windowBytes = 1 << 20

export class Session {
  readonly where: string
  /** The term of the last answer, which only ever grows here: see `leases.ts`. */
  term = 0
  /** For every call, once signed in. */
  token: string | undefined
  /** A sign-in under way. */
  signingIn: Promise<void> | undefined
  readonly #http: ClientHttp2Session
  #callsUnderWay = 0
  #usable = true

  private constructor(http: ClientHttp2Session, where: string) {
    this.#http = http
    this.where = where
    http.on('close', () => (this.#usable = false))
    http.on('goaway', () => this.retire())
    http.unref()
  }

  /** Connects. Rejects with a fault that says that nothing was sent. */
  static open({ endpoint, tls }: SessionSetup, timeoutMs: number): Promise<Session> {
    const where = hostText(endpoint)
    return new Promise((resolve, reject) => {
      const settings = { initialWindowSize: windowBytes, enablePush: false }
      const http = connect(`${tls === undefined ? 'http' : 'https'}://${where}`, { settings, ...tls })
      const limit = timeLimit(timeoutMs, () => fail(new Error(`it did not answer for ${Math.round(timeoutMs)} ms`)))
      const fail = (error: Error): void => {
        limit.cancel()
        http.destroy()
        reject(unreachable(where, error))
      }
      // Stays: an error of a session that nobody listens to would end the process.
      http.on('error', fail)
      http.once('close', () => fail(new Error('it closed the connection')))
      // The peer may speak another protocol: in HTTP/2, its settings come first.
      http.once('remoteSettings', () => {
        limit.cancel()
        http.setLocalWindowSize(windowBytes)
        resolve(new Session(http, where))
      })
    })
  }

  get usable(): boolean {
    // A destroyed session emits `close` only later.
    return this.#usable && !this.#http.destroyed
  }

  get over(): boolean {
    return this.#http.destroyed
  }

  /** Sends one message and resolves with the one that comes back. */
  call(path: string, message: Buffer, timeoutMs: number): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      if (!this.usable) {
        reject(unreachable(this.where, new Error('the connection has ended')))
        return
      }
      const stream = this.#begin(this.#headers(path, timeoutMs))
      if (stream === undefined) {
        reject(unreachable(this.where, new Error('the connection is ending')))
        return
      }
      this.#count(1)
      let reply: Buffer | undefined
      let settled = false
      const limit = timeLimit(timeoutMs, () =>
        settle(noAnswerFrom(this.where, `did not answer for ${Math.round(timeoutMs)} ms`)),
      )
      const settle = (fault?: Error): void => {
        if (settled) return
        settled = true
        limit.cancel()
        if (fault !== undefined) stream.close(constants.NGHTTP2_CANCEL)
        if (fault !== undefined) reject(fault)
        else if (reply === undefined) reject(noAnswerFrom(this.where, 'answered with nothing'))
        else resolve(reply)
      }
      stream.once('close', () => {
        this.#count(-1)
        settle(noAnswerFrom(this.where, 'closed the connection before it answered'))
      })
      follow(stream, { onMessage: (data) => (reply ??= data), ended: settle, where: this.where })
      stream.end(frame(message))
    })
  }

  /** Opens a stream, which does not keep the process alive. `ended` is called once, whoever ends it. */
  stream(path: string, onMessage: (message: Buffer) => void, ended: (fault: Error | undefined) => void): MessageStream {
    // Require a leader, so that a partitioned member fails the stream instead of going quiet.
    const stream = this.#begin({ ...this.#headers(path), hasleader: 'true' })
    if (stream === undefined) {
      queueMicrotask(() => ended(noAnswerFrom(this.where, 'is ending the connection')))
      return { send() {}, close() {} }
    }
    let over = false
    const end = (fault?: Error): void => {
      if (over) return
      over = true
      stream.close(constants.NGHTTP2_CANCEL)
      ended(fault)
    }
    stream.once('close', () => end(noAnswerFrom(this.where, 'ended the stream')))
    follow(stream, { onMessage: (data) => !over && onMessage(data), ended: end, where: this.where })
    return { send: (message) => void (over || stream.write(frame(message))), close: () => end() }
  }

  /** Whether the node still answers. */
  ping(timeoutMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      if (!this.usable) return resolve(false)
      const timer = setTimeout(() => resolve(false), timeoutMs).unref()
      const answered = (error: Error | null): void => {
        clearTimeout(timer)
        resolve(error === null)
      }
      if (!this.#http.ping(answered)) answered(new Error('not sent'))
    })
  }

  /** Takes no more calls, and ends with the last call under way. Streams do not count: they are reopened elsewhere. */
  retire(): void {
    this.#usable = false
    if (this.#callsUnderWay === 0) this.close()
  }

  /** Ends the connection, with all calls under way, after this turn of the event loop. */
  close(): void {
    this.#usable = false
    // Node crashes if a connection is destroyed while it handles data of that connection.
    setImmediate(() => this.#http.destroy())
  }

  /** Undefined: the connection takes no more. */
  #begin(headers: Record<string, string>): ClientHttp2Stream | undefined {
    try {
      return this.#http.request(headers, { endStream: false })
    } catch {
      this.retire()
      return undefined
    }
  }

  #headers(path: string, timeoutMs?: number): Record<string, string> {
    return {
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc+proto',
      te: 'trailers',
      'user-agent': 'leasehold',
      ...(timeoutMs !== undefined && { 'grpc-timeout': `${Math.min(99_999_999, Math.max(1, Math.ceil(timeoutMs)))}m` }),
      // etcd refuses a sign-in that carries an expired token.
      ...(this.token !== undefined && path !== calls.authenticate && { token: this.token }),
    }
  }

  /** A call under way keeps the process alive. */
  #count(change: 1 | -1): void {
    this.#callsUnderWay += change
    if (this.#http.destroyed) return
    if (this.#callsUnderWay === 0 && !this.#usable) this.close()
    else if (this.#callsUnderWay === 0) this.#http.unref()
    else if (change === 1 && this.#callsUnderWay === 1) this.#http.ref()
  }
}

interface StreamReader {
  readonly onMessage: (message: Buffer) => void
  readonly ended: (fault?: Error) => void
  readonly where: string
}

/** Reads messages off a stream until it says how it ended. */
function follow(stream: ClientHttp2Stream, { onMessage, ended, where }: StreamReader): void {
  const reader = new FrameReader(onMessage)
  let last: IncomingHttpHeaders | undefined
  stream.on('error', (error) => ended(noAnswerFrom(where, `broke off: ${error.message}`)))
  stream.on('response', (headers) => {
    const status = headers[':status']
    if (status !== 200) ended(new CallFault(`${where} answered with HTTP status ${status}`, undefined, false))
    // Refused at once: the trailers are among the headers.
    if (headers['grpc-status'] !== undefined) last = headers
  })
  stream.on('data', (data: Buffer) => {
    try {
      reader.push(data)
    } catch (error) {
      ended(error as Error)
    }
  })
  stream.on('trailers', (headers) => (last = headers))
  stream.on('end', () => ended(last === undefined ? noAnswerFrom(where, 'stopped without a word') : faultIn(last)))
}

function faultIn(headers: IncomingHttpHeaders): CallFault | undefined {
  const status = Number(headers['grpc-status'])
  if (status === 0) return undefined
  return answeredNo(status, decoded(String(headers['grpc-message'] ?? `gRPC status ${status}`)))
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

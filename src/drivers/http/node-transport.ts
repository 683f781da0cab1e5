import type * as Http from 'node:http'
import type * as Https from 'node:https'
import { LeaseholdError } from '../../core/errors.ts'
import { runtime } from '../../core/machine/runtime.ts'
import { timeLimit } from '../../core/time/bounded.ts'
import { storeHeader } from '../../core/wire/replies.ts'
import type { ServerAddress } from './address.ts'
import { brokeOff, closed, noReply, tooLong, Unsent } from './faults.ts'
import type { OutgoingCall, RawReply, StreamReader, Transport, TransportOptions } from './transport.ts'
import { replyBytesMax, streamOpensWithinMs, unusedMaxMs } from './transport-limits.ts'

/** Calls over `node:http` or `node:https`, on connections that are kept open between them. */
export class NodeTransport implements Transport {
  readonly #module: typeof Http | typeof Https
  readonly #address: ServerAddress
  readonly #where: string
  readonly #tls: Readonly<Record<string, string | Buffer>>
  readonly #agent: Http.Agent
  readonly #streams = new Set<Http.ClientRequest>()
  /** Ends the calls under way. */
  readonly #underWay = new Set<(error: Error) => void>()
  #closed = false

  constructor(
    module: typeof Http | typeof Https,
    address: ServerAddress,
    where: string,
    tls: Omit<TransportOptions, 'fetch'>,
  ) {
    this.#module = module
    this.#address = address
    this.#where = where
    this.#tls = Object.fromEntries(
      Object.entries(tls).flatMap(([name, pem]) =>
        pem === undefined ? [] : [[name, typeof pem === 'string' ? pem : Buffer.from(pem)]],
      ),
    )
    const options = { keepAlive: true, noDelay: true, timeout: unusedMaxMs, ...this.#tls }
    this.#agent = new module.Agent(options)
  }

  call(call: OutgoingCall): Promise<RawReply> {
    const { method, path, headers, body, deadline } = call
    // Also whoever is about to ask again: it would open a connection that nobody closes.
    if (this.#closed) return Promise.reject(new Unsent(closed(this.#where)))
    return new Promise((resolve, reject) => {
      let isSent = false
      let isOver = false
      const request = this.#begin(
        method,
        path,
        this.#agent,
        body === undefined ? headers : { ...headers, 'content-length': String(Buffer.byteLength(body)) },
      )
      const abandon = (error: Error): void => {
        request.destroy(error)
        // In Deno a request that is destroyed may tell of it much later.
        fail(error)
      }
      this.#underWay.add(abandon)
      const limit = timeLimit(Math.max(0, deadline - performance.now()), () => abandon(call.timedOut()))
      const settle = (): void => {
        isOver = true
        limit.cancel()
        this.#underWay.delete(abandon)
      }
      const fail = (error: unknown): void => {
        // A reply that is cut off fails twice, as request and as response, and one that is late fails again once it is destroyed.
        if (isOver) return
        settle()
        // The server closed a connection that was kept. What changes nothing may be asked again, over another.
        if (method === 'GET' && request.reusedSocket && isReset(error)) return resolve(this.call(call))
        reject(noReply(this.#where, error, isSent))
      }
      const succeed = (reply: RawReply): void => {
        settle()
        resolve(reply)
      }
      request.on('socket', (socket) => {
        if (request.reusedSocket || !socket.connecting) isSent = true
        else socket.once(this.#address.secure ? 'secureConnect' : 'connect', () => (isSent = true))
      })
      request.on('error', fail)
      request.on('response', (response) => {
        void readReply(response, this.#where).then(succeed, fail)
      })
      request.end(body)
    })
  }

  stream(path: string, headers: Readonly<Record<string, string>>, reader: StreamReader): () => void {
    const request = this.#begin('GET', path, false, headers)
    const timer = setTimeout(() => request.destroy(), streamOpensWithinMs)
    this.#streams.add(request)
    request.on('error', () => {})
    request.on('close', () => {
      clearTimeout(timer)
      if (this.#streams.delete(request)) reader.ended()
    })
    request.on('response', (response) => {
      clearTimeout(timer)
      response.on('error', () => {})
      response.socket.unref()
      if (response.statusCode !== 200) return void request.destroy()
      response.setEncoding('utf8')
      response.on('data', (text: string) => reader.read(text))
      reader.opened()
    })
    request.end()
    return () => void request.destroy()
  }

  close(): void {
    this.#closed = true
    for (const request of this.#streams) request.destroy()
    // Not left to the agent: in Deno the end of a connection ends no request.
    for (const abandon of this.#underWay) abandon(closed(this.#where))
    this.#agent.destroy()
    // Deno asks again by itself over a connection that it opens after this, which would keep the process running.
    if (runtime === 'Deno') setImmediate(() => this.#agent.destroy())
  }

  #begin(
    method: string,
    path: string,
    agent: Http.Agent | false,
    headers: Readonly<Record<string, string>>,
  ): Http.ClientRequest {
    const { host, port } = this.#address
    return this.#module.request({
      method,
      host,
      port,
      path: `${this.#address.path}${path}`,
      agent,
      headers,
      ...this.#tls,
    })
  }
}

function readReply(response: Http.IncomingMessage, where: string): Promise<RawReply> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let length = 0
    response.on('data', (piece: Buffer) => {
      length += piece.length
      pieces.push(piece)
      if (length > replyBytesMax) response.destroy(tooLong(where))
    })
    response.on('error', reject)
    let isWhole = false
    response.on('close', () => {
      // Every reply closes: an error with its stack is made only for the reply that broke off.
      if (!isWhole) reject(new LeaseholdError('UNAVAILABLE', brokeOff(where), { reason: 'network' }))
    })
    response.on('end', () => {
      isWhole = true
      resolve({
        status: response.statusCode ?? 0,
        text: Buffer.concat(pieces).toString('utf8'),
        location: response.headers.location,
        store: textOf(response.headers[storeHeader.toLowerCase()]),
      })
    })
  })
}

function textOf(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : undefined
}

function isReset(error: unknown): boolean {
  return ['ECONNRESET', 'EPIPE'].includes((error as NodeJS.ErrnoException | undefined)?.code ?? '')
}

import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import type { Server } from 'node:http'
import { connect as connectSocket, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { serve, type LeaseholdServer, type ServeOptions } from '../../src/server/index.ts'

/** One end of a connection within a process: what is written here is read at the other end. */
class ConnectionEnd extends Duplex {
  /** As a server asks of a socket. */
  readonly remoteAddress = '127.0.0.1'
  readonly remotePort: number
  #other: ConnectionEnd | undefined
  #goOn: (() => void) | undefined

  private constructor(remotePort: number) {
    super()
    this.remotePort = remotePort
  }

  /** Both ends of a new connection. */
  static pair(port: number): readonly [ConnectionEnd, ConnectionEnd] {
    const first = new ConnectionEnd(port)
    const second = new ConnectionEnd(port)
    first.#other = second
    second.#other = first
    return [first, second]
  }

  /** Nothing here is silent for long: `sendBytes` and `PipelinedCalls` give up by themselves. */
  setTimeout(): this {
    return this
  }

  override _read(): void {
    const goOn = this.#goOn
    this.#goOn = undefined
    goOn?.()
  }

  override _write(bytes: Buffer, _: string, written: () => void): void {
    const other = this.#other
    if (other === undefined || other.destroyed || other.push(bytes)) return written()
    other.#goOn = written
  }

  override _final(ended: () => void): void {
    if (this.#other?.destroyed === false) this.#other.push(null)
    ended()
  }

  override _destroy(error: Error | null, destroyed: (error: Error | null) => void): void {
    const other = this.#other
    this.#other = undefined
    // As with a socket, the other side learns of it in a turn of its own.
    setImmediate(() => other?.destroy())
    destroyed(error)
  }
}

/**
 * A server in this process that is connected to without the system's sockets, several times as fast. Its parser of HTTP and all
 * behind it are the real ones.
 */
export class InProcessServer {
  readonly #server: LeaseholdServer
  readonly #http: Server
  #connections = 0

  private constructor(server: LeaseholdServer, http: Server) {
    this.#server = server
    this.#http = http
  }

  static async start(options: ServeOptions): Promise<InProcessServer> {
    const server = await serve(options)
    return new InProcessServer(server, await httpServerAt(server.url))
  }

  /** A new connection, as its caller has it. */
  readonly connect = (): Duplex => {
    this.#connections += 1
    const [ours, theirs] = ConnectionEnd.pair(this.#connections)
    ours.on('error', () => {})
    this.#http.emit('connection', theirs)
    return ours
  }

  close(): Promise<void> {
    return this.#server.close()
  }
}

/** The server of Node that listens at a URL of this process: the socket of a connection to it knows it. */
async function httpServerAt(url: string): Promise<Server> {
  const accepted = new Promise<Server>((resolve) => {
    const learn = (message: unknown): void => {
      unsubscribe('net.server.socket', learn)
      resolve((message as { readonly socket: Socket & { readonly server: Server } }).socket.server)
    }
    subscribe('net.server.socket', learn)
  })
  const socket = connectSocket(Number(new URL(url).port), '127.0.0.1')
  const http = await accepted
  socket.destroy()
  await once(socket, 'close')
  return http
}

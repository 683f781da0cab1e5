import { connect as connectSocket, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { timeLimit, type TimeLimit } from '../../core/time/bounded.ts'
import type { RedisAddress } from './address.ts'
import { isAscii, Push, ReplyError, ReplyReader } from './replies.ts'
import { callTimedOut, notSentError } from './errors.ts'

const keepAliveMs = 10_000
const readBytes = 65_536

/** A call without a reply yet. */
interface PendingCall {
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: Error) => void
  readonly withinMs: number
  /** When the call times out. */
  readonly until: number
}

const noCall: Pick<PendingCall, 'until' | 'withinMs'> = { until: Infinity, withinMs: Infinity }

/** What a {@link RedisConnection} reports. */
export interface ConnectionEvents {
  /** A message came by a channel that was subscribed to. */
  onMessage(channel: string, message: string): void
  /** The connection has ended. Called once. */
  onClose(): void
}

/** One connection to one server. Commands are written as they come, and replies come in their order; nothing is sent twice. */
export class RedisConnection {
  readonly #address: RedisAddress
  readonly #events: ConnectionEvents
  readonly #socket: Socket
  readonly #calls: PendingCall[] = []
  readonly #reader = new ReplyReader((reply) => this.#onReply(reply))
  #error: Error | undefined
  #ended = false
  /** Checks for calls that have timed out. A reply in time does not stop the check, which then finds nothing. */
  #check: TimeLimit | undefined
  #checkAt = Infinity

  /** Begins to connect. {@link signIn} tells whether that succeeds. */
  constructor(address: RedisAddress, events: ConnectionEvents) {
    this.#address = address
    this.#events = events
    this.#socket = socketTo(address, (piece) => this.#reader.read(piece))
    this.#socket.on('error', (error) => (this.#error = error))
    this.#socket.on('close', () => this.#end(this.#error ?? new Error('Connection is closed.')))
  }

  /** Resolves once the connection is signed in. Rejects with the error that prevented that, in bounded time. */
  async signIn(withinMs: number): Promise<void> {
    const { username = 'default', password, db } = this.#address
    const login = password === undefined ? [] : ['AUTH', username, password]
    // The socket keeps both commands until it is connected.
    const greeted = this.call('HELLO', ['3', ...login], withinMs)
    const selected = db === 0 ? undefined : this.call('SELECT', [String(db)], withinMs)
    const [greeting] = await Promise.all([greeted, selected])
    if (!Array.isArray(greeting)) throw new Error('What answers there is no Redis server.')
  }

  /** Sends a command. Rejects with the error of Redis, or if the connection ends before the reply: a call that times out ends it. */
  call(command: string, args: readonly string[], withinMs: number): Promise<unknown> {
    if (this.#ended) return Promise.reject(notSentError())
    return new Promise((resolve, reject) => {
      const until = performance.now() + withinMs
      this.#calls.push({ resolve, reject, withinMs, until })
      if (until < this.#checkAt) this.#checkAfter(until)
      const text = encoded(command, args, charactersOf)
      // Nearly all commands are ASCII, where a text has as many bytes as characters: then no bytes need be counted.
      if (isAscii(text)) this.#socket.write(text, 'latin1')
      else this.#socket.write(encoded(command, args, bytesOf), 'utf8')
    })
  }

  /** Whether the connection has ended. */
  get ended(): boolean {
    return this.#ended
  }

  /** Ends the connection. Calls without a reply reject. */
  close(): void {
    // At once: the socket reports its closing only later.
    this.#check?.cancel()
    this.#socket.destroy()
  }

  #onReply(reply: unknown): void {
    if (reply instanceof Push) this.#onPush(reply.items)
    else if (reply instanceof ReplyError) this.#calls.shift()?.reject(reply)
    else this.#calls.shift()?.resolve(reply)
  }

  /** Redis confirms a subscription by a push, in order among the replies. */
  #onPush([type, channel, message]: readonly unknown[]): void {
    if (type === 'message') this.#events.onMessage(String(channel), String(message))
    else if (type === 'subscribe') this.#calls.shift()?.resolve(null)
  }

  #checkAfter(until: number): void {
    this.#check?.cancel()
    this.#checkAt = until
    this.#check = timeLimit(until - performance.now(), () => this.#endIfTimedOut())
  }

  #endIfTimedOut(): void {
    this.#checkAt = Infinity
    const next = this.#calls.reduce((soonest, call) => (call.until < soonest.until ? call : soonest), noCall)
    if (next.until === Infinity) return
    if (performance.now() < next.until) this.#checkAfter(next.until)
    else this.#socket.destroy(callTimedOut(next.withinMs))
  }

  #end(error: Error): void {
    this.#ended = true
    this.#check?.cancel()
    for (const { reject } of this.#calls.splice(0)) reject(error)
    this.#events.onClose()
  }
}

function encoded(command: string, args: readonly string[], lengthOf: (text: string) => number): string {
  const parts = [`*${args.length + 1}`, `$${command.length}`, command]
  for (const argument of args) parts.push(`$${lengthOf(argument)}`, argument)
  parts.push('')
  // Joined once: a text that grows piece by piece is a tree of pieces until it is written.
  return parts.join('\r\n')
}

function charactersOf(text: string): number {
  return text.length
}

function bytesOf(text: string): number {
  return Buffer.byteLength(text)
}

function socketTo({ host = '', port = 0, path, tls }: RedisAddress, onData: (piece: Buffer) => void): Socket {
  const target = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs }
  if (tls) return connectTls({ ...target, ...(isIP(host) === 0 && { servername: host }) }).on('data', onData)
  // The socket reads into one buffer again and again, which is quicker than a stream.
  const buffer = Buffer.allocUnsafeSlow(readBytes)
  const callback = (bytes: number): boolean => {
    onData(buffer.subarray(0, bytes))
    return true
  }
  const onread = { buffer, callback }
  return connectSocket(path === undefined ? { ...target, onread } : { path, onread })
}

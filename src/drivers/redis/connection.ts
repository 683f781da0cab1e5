import { connect as connectSocket, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { timeLimit, type TimeLimit } from '../../core/time/bounded.ts'
import type { Address } from './address.ts'
import { isAscii, Push, ReplyError, ReplyReader } from './replies.ts'
import { timedOut, unsent } from './faults.ts'

const keepAliveMs = 10_000
const readBytes = 65_536

interface Caller {
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: Error) => void
  readonly withinMs: number
  /** When the reply is overdue. */
  readonly until: number
}

const nobody: Pick<Caller, 'until' | 'withinMs'> = { until: Infinity, withinMs: Infinity }

export interface ConnectionEvents {
  /** A message came to a channel that was subscribed to. */
  message(channel: string, message: string): void
  /** The connection is gone, once. */
  closed(): void
}

/** One connection to one server. Commands are written as they come and answered in order; nothing is sent twice. */
export class Connection {
  readonly #address: Address
  readonly #events: ConnectionEvents
  readonly #socket: Socket
  readonly #callers: Caller[] = []
  readonly #reader = new ReplyReader((reply) => this.#onNotification(reply))
  #error: Error | undefined
  #ended = false
  /** Looks for overdue replies. One that comes in time does not stop it: it then finds nothing. */
  #watch: TimeLimit | undefined
  #watchAt = Infinity

  /** Begins to connect. {@transport signIn} tells how that went. */
  constructor(address: Address, events: ConnectionEvents) {
    this.#address = address
    this.#events = events
    this.#socket = socketTo(address, (piece) => this.#reader.read(piece))
    this.#socket.on('error', (error) => (this.#error = error))
    this.#socket.on('close', () => this.#end(this.#error ?? new Error('Connection is closed.')))
  }

  /** Resolves once it is connected and signed in. Rejects with what kept it from that, in bounded time. */
  async signIn(withinMs: number): Promise<void> {
    const { username = 'default', password, db } = this.#address
    const login = password === undefined ? [] : ['AUTH', username, password]
    // Written as soon as there is a connection.
    const greeted = this.call('HELLO', ['3', ...login], withinMs)
    const selected = db === 0 ? undefined : this.call('SELECT', [String(db)], withinMs)
    const [greeting] = await Promise.all([greeted, selected])
    if (!Array.isArray(greeting)) throw new Error('What answers there is no Redis server.')
  }

  /**
   * Sends a command. Rejects with what Redis complains about, or if the connection is lost before it has answered: an
   * overdue reply has it closed.
   */
  call(command: string, args: readonly string[], withinMs: number): Promise<unknown> {
    if (this.#ended) return Promise.reject(unsent())
    return new Promise((resolve, reject) => {
      const until = performance.now() + withinMs
      this.#callers.push({ resolve, reject, withinMs, until })
      if (until < this.#watchAt) this.#watchUntil(until)
      const text = encoded(command, args, charactersOf)
      // Nearly all are ASCII: their lengths are right then, and nothing had to be counted.
      if (isAscii(text)) this.#socket.write(text, 'latin1')
      else this.#socket.write(encoded(command, args, bytesOf), 'utf8')
    })
  }

  /** Whether the connection is gone. */
  get ended(): boolean {
    return this.#ended
  }

  /** Hangs up. Whoever has no answer yet will not get one. */
  close(): void {
    // Now, not when the socket says that it has closed.
    this.#watch?.cancel()
    this.#socket.destroy()
  }

  #onNotification(reply: unknown): void {
    if (reply instanceof Push) this.#hearPush(reply.items)
    else if (reply instanceof ReplyError) this.#callers.shift()?.reject(reply)
    else this.#callers.shift()?.resolve(reply)
  }

  /** Redis confirms a subscription by a push, in its turn among the replies. */
  #hearPush([kind, channel, message]: readonly unknown[]): void {
    if (kind === 'message') this.#events.message(String(channel), String(message))
    else if (kind === 'subscribe') this.#callers.shift()?.resolve(null)
  }

  #watchUntil(until: number): void {
    this.#watch?.cancel()
    this.#watchAt = until
    this.#watch = timeLimit(until - performance.now(), () => this.#look())
  }

  #look(): void {
    this.#watchAt = Infinity
    const next = this.#callers.reduce((soonest, caller) => (caller.until < soonest.until ? caller : soonest), nobody)
    if (next.until === Infinity) return
    if (performance.now() < next.until) this.#watchUntil(next.until)
    else this.#socket.destroy(timedOut(next.withinMs))
  }

  #end(error: Error): void {
    this.#ended = true
    this.#watch?.cancel()
    for (const { reject } of this.#callers.splice(0)) reject(error)
    this.#events.closed()
  }
}

function encoded(command: string, args: readonly string[], lengthOf: (text: string) => number): string {
  let text = `*${args.length + 1}\r\n$${command.length}\r\n${command}\r\n`
  for (const argument of args) text += `$${lengthOf(argument)}\r\n${argument}\r\n`
  return text
}

function charactersOf(text: string): number {
  return text.length
}

function bytesOf(text: string): number {
  return Buffer.byteLength(text)
}

function socketTo({ host = '', port = 0, path, tls }: Address, arrived: (piece: Buffer) => void): Socket {
  const where = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs }
  if (tls) return connectTls({ ...where, ...(isIP(host) === 0 && { servername: host }) }).on('data', arrived)
  // What arrives is put into one buffer again and again: quicker than a stream.
  const buffer = Buffer.allocUnsafeSlow(readBytes)
  const callback = (bytes: number): boolean => {
    arrived(buffer.subarray(0, bytes))
    return true
  }
  const onread = { buffer, callback }
  return connectSocket(path === undefined ? { ...where, onread } : { path, onread })
}

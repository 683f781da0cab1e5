import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Environment } from '../../core/time/environment.ts'
import { Buckets, networkOf } from '../auth/rate-limits.ts'
import type { ServerLimits } from '../contract/limits.ts'
import type { TrustedProxies } from './caller-address.ts'
import type { DropLog } from './drop-log.ts'
import type { HoldingConnection } from './held-bytes.ts'

/** What the connections are held to. @internal */
export interface ConnectionLimitsOptions {
  readonly limits: ServerLimits
  readonly proxies: TrustedProxies
  readonly drops: DropLog
  readonly environment: Pick<Environment, 'now'>
}

/** How many connections of an address may be cut off for what was sent on them, before it may make no more for a while. */
const dropsAllowed = { perSecond: 1, burst: 10 }

/** A connection of an address. */
interface Peer {
  readonly socket: Socket
  /** Whether a call on it was let in with a token, or without one where none is wanted. */
  isKnown: boolean
}

/** A connection on which calls are made. */
interface CallingConnection extends HoldingConnection {
  /** Those that are not closed: a few at most. */
  readonly responses: ServerResponse[]
}

/** Bounds the connections of an address, and the calls under way on each connection. @internal */
export class ConnectionLimits {
  readonly #limits: ServerLimits
  readonly #proxies: TrustedProxies
  readonly #drops: DropLog
  /** What an address may still do wrong. */
  readonly #patience: Buckets
  /** By network, and there by address and port: TLS has another socket for the same connection. */
  readonly #byNetwork = new Map<string, Map<string, Peer>>()
  /** Those of which `know` was told, as their calls have them. */
  readonly #known = new WeakSet<Socket>()
  readonly #calls = new WeakMap<Duplex, CallingConnection>()

  constructor({ limits, proxies, drops, environment }: ConnectionLimitsOptions) {
    this.#patience = new Buckets(() => environment.now())
    this.#limits = limits
    this.#proxies = proxies
    this.#drops = drops
  }

  /**
   * Counts a new connection, or closes it if its address has as many as it may have, or has had too many cut off: what Node reads of
   * a connection before it can be cut off costs more than to refuse it.
   */
  accept(socket: Socket): void {
    const { remoteAddress = '' } = socket
    if (this.#proxies.trusts(remoteAddress)) return
    const network = networkOf(remoteAddress)
    const peers = this.#byNetwork.get(network) ?? new Map<string, Peer>()
    if (peers.size >= this.#limits.connectionsPerAddressMax || this.#patience.isEmpty(network, dropsAllowed)) {
      this.#drops.note('address')
      // A reset: nothing of it stays, not even in the system.
      return void socket.resetAndDestroy()
    }
    const name = peerOf(socket)
    this.#byNetwork.set(network, peers.set(name, { socket, isKnown: false }))
    socket.on('close', () => {
      peers.delete(name)
      if (peers.size === 0) this.#byNetwork.delete(network)
    })
  }

  /** A call on the connection was let in: the connection is not cut off for what others of its address do. */
  know(socket: Socket): void {
    if (this.#known.has(socket)) return
    this.#known.add(socket)
    const peer = this.#byNetwork.get(networkOf(socket.remoteAddress ?? ''))?.get(peerOf(socket))
    if (peer !== undefined) peer.isKnown = true
  }

  /**
   * Counts a call on its connection until its answer has been handed to the system. Undefined: the connection is over, because its caller
   * sends calls and does not read; the call is not to be carried out. Node has by then read every call of the same piece of data.
   */
  begin({ socket }: IncomingMessage, response: ServerResponse): HoldingConnection | undefined {
    if (socket.destroyed) return undefined
    let connection = this.#calls.get(socket)
    if (connection === undefined) {
      const opened: CallingConnection = { calls: 0, bytes: 0, responses: [] }
      this.#calls.set(socket, (connection = opened))
      socket.on('close', () => endAll(opened))
    }
    if (connection.calls >= this.#limits.callsPerConnectionMax) {
      this.drop(socket, 'calls')
      return undefined
    }
    connection.calls += 1
    connection.responses.push(response)
    return connection
  }

  /** The response of a call is closed. Repeatable. */
  end({ socket }: IncomingMessage, response: ServerResponse): void {
    const connection = this.#calls.get(socket)
    const index = connection?.responses.indexOf(response) ?? -1
    if (connection === undefined || index < 0) return
    connection.calls -= 1
    connection.responses.splice(index, 1)
  }

  /** Whether a call that has come as a whole on the connection has no whole answer yet. */
  hasWholeCall(socket: Duplex): boolean {
    return this.#calls.get(socket)?.responses.some(({ req }) => req.complete) === true
  }

  /** Ends a connection at once, and notes why. */
  drop(socket: Socket, why: Parameters<DropLog['note']>[0]): void {
    if (socket.destroyed) return
    this.#drops.note(why)
    const { remoteAddress = '' } = socket
    const name = peerOf(socket)
    socket.destroy()
    if (this.#proxies.trusts(remoteAddress)) return
    const network = networkOf(remoteAddress)
    const peers = this.#byNetwork.get(network)
    // What a token does is not held against its address, which others may share.
    if (peers?.get(name)?.isKnown === true) return
    if (this.#patience.take(network, dropsAllowed, 1) === 0) return
    for (const { socket: open, isKnown } of peers?.values() ?? []) {
      if (isKnown || open.destroyed) continue
      this.#drops.note('address')
      open.destroy()
    }
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}

/** Node closes the response whose turn it is. Those behind it, which have no socket yet, would stay for ever with what they hold. */
function endAll({ responses }: CallingConnection): void {
  for (const response of responses.slice()) {
    response.destroy()
    response.emit('close')
  }
}

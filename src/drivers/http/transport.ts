import { LeaseholdError } from '../../core/errors.ts'
import { builtin } from '../../core/machine/runtime.ts'
import type { ServerAddress } from './address.ts'
import { FetchTransport, type Fetch } from './fetch-transport.ts'
import { NodeTransport } from './node-transport.ts'

/** One call, as it is sent. */
export interface OutgoingCall {
  readonly method: 'GET' | 'POST'
  /** After the path of the server's address. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** JSON. */
  readonly body: string | undefined
  /** On the clock of `performance`: when to give up. */
  readonly deadline: number
  /** What to give up with. */
  timedOut(): LeaseholdError
}

/** What came back, not yet read as JSON. */
export interface RawReply {
  readonly status: number
  readonly text: string
  readonly location: string | undefined
  /** The server's digest of what it says of its store: see `storeHeader`. */
  readonly store: string | undefined
}

/** Whoever reads a stream. */
export interface StreamReader {
  /** Status 200 has come, and events will. */
  opened(): void
  read(text: string): void
  /** Called once, also if it never opened. */
  ended(): void
}

/** How calls get to one server, and replies back. */
export interface Transport {
  /** One call. Rejects with `Unsent` if nothing can have reached the server, else with why there is no reply. */
  call(call: OutgoingCall): Promise<RawReply>
  /**
   * A stream of text on a connection of its own, which once it is open does not keep a process alive where that can be had. Call
   * the result to end it.
   */
  stream(path: string, headers: Readonly<Record<string, string>>, reader: StreamReader): () => void
  /** Ends what is under way, and lets go of all connections. */
  close(): void
}

/** Which transport to use, and how. */
export interface TransportOptions {
  readonly ca?: string | Uint8Array | undefined
  readonly cert?: string | Uint8Array | undefined
  readonly key?: string | Uint8Array | undefined
  readonly fetch?: Fetch | undefined
}

/** Node's own connections where the runtime has them, else `fetch`, which is everywhere. A given `fetch` goes before both. */
export function transportTo(address: ServerAddress, where: string, { fetch, ...tls }: TransportOptions): Transport {
  const module = fetch === undefined ? ownConnections(address.secure) : undefined
  if (module !== undefined) return new NodeTransport(module, address, where, tls)
  const [option] = Object.entries(tls).flatMap(([name, value]) => (value === undefined ? [] : name))
  if (option !== undefined) {
    const message = `The option ${option} needs connections of Node. With fetch, the runtime decides about certificates.`
    throw new LeaseholdError('UNSUPPORTED', `${message} Leave ${option} out.`)
  }
  return new FetchTransport(fetch ?? ((url, init) => globalThis.fetch(url, init)), address, where)
}

/** Those of a Cloudflare Worker are `fetch` in the guise of `node:http`, and lack what we need of a socket. */
function ownConnections(isSecure: boolean): ReturnType<typeof builtin<'node:http' | 'node:https'>> {
  const { navigator } = globalThis as { readonly navigator?: { readonly userAgent?: string } }
  return navigator?.userAgent === 'Cloudflare-Workers' ? undefined : builtin(isSecure ? 'node:https' : 'node:http')
}

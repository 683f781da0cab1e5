/** The parts of a NATS client that this driver uses, by shape: a package is imported only if a URL is given. */
import { redactedText } from '../../core/contract/redaction.ts'
import { LeaseholdError, messageOf } from '../../core/errors.ts'
import { loadFirst } from '../../core/machine/optional-package.ts'
import { hostText } from '../kit/url.ts'
import { natsError } from './errors.ts'
import type { NatsAddress } from './url.ts'

/** A message as it was received. */
export interface NatsMessage {
  readonly data: Uint8Array
}

/** A `NatsConnection` of @nats-io/transport-node or of nats 2. */
export interface NatsConnectionLike {
  readonly info?: { readonly version: string; readonly max_payload?: number } | undefined
  request(
    subject: string,
    payload: string,
    options: { readonly timeout: number; readonly headers?: never },
  ): Promise<NatsMessage>
  publish(subject: string, payload: string): void
  subscribe(
    subject: string,
    options: { readonly callback: (error: Error | null, message: NatsMessage) => void },
  ): { unsubscribe(): void }
  status(): AsyncIterable<{ readonly type: string }>
  rtt(): Promise<number>
  reconnect?(): Promise<void>
  isClosed(): boolean
  close(): Promise<void>
}

/** Certificates as PEM texts: the authority, and our own. */
export interface NatsTls {
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
}

/** Connects. The client stays for as long as it takes: servers come back. */
export async function dialNats(
  { servers, login, isSecure }: NatsAddress,
  tls: NatsTls | undefined,
  timeoutMs: number,
): Promise<NatsConnectionLike> {
  const { module } = await loadFirst('The NATS driver', [{ name: '@nats-io/transport-node', fits: ['3'] }])
  const { connect } = module as { connect: (options: object) => Promise<NatsConnectionLike> }
  const isTls = isSecure || tls !== undefined
  try {
    const connection = await connect({
      servers: servers.map(hostText),
      ...login,
      ...(isTls && { tls: { ...tls } }),
      name: 'leasehold',
      timeout: timeoutMs,
      maxReconnectAttempts: -1,
      reconnectTimeWait: 250,
      pingInterval: 10_000,
      noAsyncTraces: true,
    })
    return connection
  } catch (error) {
    if (error instanceof LeaseholdError) throw error
    throw natsError(new Error(redactedText(messageOf(error)), { cause: error }))
  }
}

/** The headers of a message. Each client has a class of its own for them, of which it only calls `encode`. */
export function messageHeaders(fields: Readonly<Record<string, string>>): never {
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  const bytes = new TextEncoder().encode(`NATS/1.0\r\n${lines.join('')}\r\n`)
  return { encode: () => bytes } as never
}

/**
 * Locks in a KV bucket of NATS JetStream, 2.9 or newer: one server, or a cluster.
 *
 * One document a key, changed by a write that compares its sequence number, around the rule of `admission.ts`. Nobody asks a server
 * for the time: each process counts leases by its own clock (decisions 125 and 130). Notifications are plain NATS messages.
 */
import { checkOptions, withDefaults, type OptionNames } from '../../core/contract/option-names.ts'
import type { LockDriver } from '../../core/contract/driver.ts'
import { fullSupport, leaseDefaults } from '../../core/contract/supports.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { timerMs, type Duration } from '../../core/time/duration.ts'
import { documentDriver } from '../document/driver.ts'
import { dialNats, type NatsConnectionLike, type NatsTls } from './client.ts'
import { NatsStore } from './store.ts'
import { parseNatsUrl } from './url.ts'

export type { NatsConnectionLike, NatsMessage, NatsTls } from './client.ts'

/** The options of `nats`. */
export interface NatsOptions {
  /**
   * The KV bucket of the locks, made if it is not there; in a URL: `?bucket=NAME`.
   *
   * @default 'leasehold'
   */
  readonly bucket?: string | undefined
  /**
   * On how many servers of a cluster a new bucket is kept.
   *
   * @default 1
   */
  readonly replicas?: number | undefined
  /**
   * The servers run with `sync_interval: always`. Not checked, as no client can: it ends the warning.
   *
   * @default false
   */
  readonly syncAlways?: boolean | undefined
  /**
   * How long a lease lasts where the caller names no ttl.
   *
   * @default '30s'
   */
  readonly ttl?: Duration | undefined
  /**
   * How often such a lease is renewed.
   *
   * @default a third of `ttl`
   */
  readonly heartbeat?: Duration | undefined
  /**
   * How long one `send` may take, retries included; where short leases are renewed, a third of their ttl at most.
   *
   * @default '5s'
   */
  readonly timeout?: Duration | undefined
  /** With a URL: certificates as PEM texts, beside what Node trusts anyway. The connection is refused without TLS. */
  readonly tls?: NatsTls | undefined
}

const natsNames: OptionNames<NatsOptions> = {
  bucket: true,
  replicas: true,
  syncAlways: true,
  ttl: true,
  heartbeat: true,
  timeout: true,
  tls: true,
}

const tlsNames: OptionNames<NatsTls> = { ca: true, cert: true, key: true }

const bucketDefault = 'leasehold'
const timeoutDefaultMs = 5000
/** A watched key is read at least twelve times in the shortest ttl. Notifications come earlier. */
const polling = { minMs: 100, maxMs: 1000, keysPerSecondMax: 1000 }

/**
 * A lock store in NATS JetStream: a connection of `@nats-io/transport-node` or `nats`, which stays yours, or a URL.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { nats } from 'leasehold/nats'
 * import { connect } from '@nats-io/transport-node'
 *
 * const connection = await connect({ servers: '127.0.0.1:4222' })
 * await using locks = await createLocks({ driver: nats(connection, { bucket: 'locks' }) })
 * ```
 */
export function nats(source: string | NatsConnectionLike, options: NatsOptions = {}): LockDriver {
  checkOptions(options, natsNames, 'nats', { prefix: "It is 'bucket' here." })
  checkOptions(options.tls, tlsNames, 'tls')
  const address = typeof source === 'string' ? parseNatsUrl(source) : undefined
  const named = withDefaults<NatsOptions>(address?.bucket === undefined ? {} : { bucket: address.bucket }, options)
  const { bucket = bucketDefault, replicas = 1, syncAlways = false, tls } = named
  if (!/^[\w-]{1,64}$/.test(bucket))
    throw invalid(`The bucket ${JSON.stringify(bucket)} must be 1 to 64 letters, digits, - or _.`)
  if (![1, 2, 3, 4, 5].includes(replicas)) throw invalid('replicas must be a whole number from 1 to 5.')
  const timeoutMs = timerMs(named.timeout ?? timeoutDefaultMs, 'timeout')
  const store = new NatsStore({
    bucket,
    replicas,
    syncAlways,
    timeoutMs,
    polling,
    supports: { ...fullSupport, ...leaseDefaults(named) },
    source: address === undefined ? (source as NatsConnectionLike) : () => dialNats(address, tls, timeoutMs),
  })
  return documentDriver(store)
}

function invalid(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', message)
}

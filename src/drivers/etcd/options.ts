import type { ConnectionOptions } from 'node:tls'
import { checkOptions, type OptionNames } from '../../core/option-names.ts'
import type { Duration } from '../../core/time/duration.ts'
import type { LeasesForTests } from './leases-for-tests.ts'

/** The options of `etcd`. */
export interface EtcdOptions {
  /**
   * What every key begins with; in a URL: its path.
   *
   * @default 'leasehold/'
   */
  readonly prefix?: string | undefined
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
  /** With `etcds:`, and beside what Node trusts anyway: the authority, and a certificate and key of our own. */
  readonly tls?: Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'passphrase' | 'servername'> | undefined
  /** For tests that move time: they end claims, not etcd. All drivers of one store must share it. */
  readonly leasesForTests?: LeasesForTests | undefined
}

const etcdNames: OptionNames<EtcdOptions> = {
  prefix: true,
  ttl: true,
  heartbeat: true,
  timeout: true,
  tls: true,
  leasesForTests: true,
}

const tlsNames: OptionNames<NonNullable<EtcdOptions['tls']>> = {
  ca: true,
  cert: true,
  key: true,
  passphrase: true,
  servername: true,
}

/** What holds by default. @internal */
export const defaults = { prefix: 'leasehold/', timeout: 5000 } as const

/** Refuses options that are misspelt. @internal */
export function checkEtcdOptions(options: EtcdOptions): void {
  checkOptions(options, etcdNames, 'etcd')
  checkOptions(options.tls, tlsNames, 'tls')
}

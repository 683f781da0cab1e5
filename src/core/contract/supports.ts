import type { Supports, LockDriver } from './driver.ts'
import { yearMs } from './bounds.ts'
import { LeaseholdError } from '../errors.ts'
import { positiveMs, type Duration } from '../time/duration.ts'

/** Everything. A driver names only where it differs. */
export const fullSupport: Supports = {
  shared: true,
  limit: true,
  range: true,
  queue: true,
  push: true,
  priority: true,
  convert: true,
  evict: ['stale', 'lower-priority', 'same-runner', 'all'],
  grace: true,
  maxHold: true,
  fence: true,
  ttlMinMs: 1,
  ttlMaxMs: yearMs,
}

/** Whether the claims of a store end with the connection that made them: see {@link Supports.lifetime}. */
export function endsWithConnection({ lifetime }: Supports): boolean {
  return lifetime === 'connection'
}

/**
 * Refuses a store whose claims end with their connection, for a composition (a quorum, a server) between a holder and that
 * connection. When the connection ends, the store frees the lock, while the holder does not notice and trusts its lease
 * to the answered end. Every composition calls this when it opens, and whenever `supports` may have changed.
 * `composition` begins the message, e.g. `A quorum`.
 */
export function requireLeaseLifetime(
  { name, supports }: Pick<LockDriver, 'name' | 'supports'>,
  composition: string,
): void {
  if (!endsWithConnection(supports)) return
  throw new LeaseholdError(
    'UNSUPPORTED',
    `${composition} cannot use ${name}: its locks end with the connection that took them, and the holder would not ` +
      'notice. Use a store with leases there (postgres: instead of postgres-advisory:), or connect to it directly.',
  )
}

/** The default ttl of a store's leases, and how often they are renewed by default. */
export interface LeaseDefaults {
  readonly ttl?: Duration | undefined
  readonly heartbeat?: Duration | undefined
}

const ttlDefault = '30s'

/** The lease defaults, checked, as fields of `supports`. */
export function leaseDefaults({ ttl, heartbeat }: LeaseDefaults): Partial<Supports> {
  const ttlMs = positiveMs(ttl ?? ttlDefault, 'ttl')
  if (ttlMs > yearMs) throw new LeaseholdError('INVALID', `ttl is ${ttlMs} ms. Use ${yearMs} ms at most, a year.`)
  const heartbeatMs = heartbeat === undefined ? ttlMs / 3 : positiveMs(heartbeat, 'heartbeat')
  if (heartbeatMs <= ttlMs / 2) return { ttlDefaultMs: ttlMs, heartbeatDefaultMs: heartbeatMs }
  throw new LeaseholdError(
    'INVALID',
    `heartbeat is ${Math.round(heartbeatMs)} ms, over half the ttl of ${ttlMs} ms: one failed renewal would lose the lock.`,
  )
}

import type { Supports } from './driver.ts'
import { LeaseholdError } from './errors.ts'
import { yearMs } from './limits/bounds.ts'
import { positiveMs, type Duration } from './time/duration.ts'

/** How long leases of a store last where the caller does not say, and how often they are renewed. */
export interface LeaseDefaults {
  readonly ttl?: Duration | undefined
  readonly heartbeat?: Duration | undefined
}

const ttlUnlessTold = '30s'

/** What a store says of it in `supports`. */
export function leaseDefaults({ ttl, heartbeat }: LeaseDefaults): Partial<Supports> {
  const ttlMs = positiveMs(ttl ?? ttlUnlessTold, 'ttl')
  if (ttlMs > yearMs) throw new LeaseholdError('INVALID', `ttl is ${ttlMs} ms. Use ${yearMs} ms at most, a year.`)
  const heartbeatMs = heartbeat === undefined ? ttlMs / 3 : positiveMs(heartbeat, 'heartbeat')
  if (heartbeatMs <= ttlMs / 2) return { ttlDefaultMs: ttlMs, heartbeatDefaultMs: heartbeatMs }
  throw new LeaseholdError(
    'INVALID',
    `heartbeat is ${Math.round(heartbeatMs)} ms, over half the ttl of ${ttlMs} ms: one failed renewal would lose the lock.`,
  )
}

import type { LockDriver, Supports } from './driver.ts'
import { LeaseholdError } from './errors.ts'

/** Whether the claims of a store end with the connection that made them: see {@link Supports.lifetime}. */
export function endsWithConnection({ lifetime }: Supports): boolean {
  return lifetime === 'connection'
}

/**
 * Refuses a store whose claims end with their connection, for a composition that stands between a holder and that
 * connection. The store would free the lock as soon as the connection ends, while the holder, who learns nothing of
 * that, trusts its lease to the end it was told. Every composition calls this when it opens, and whenever what the store
 * supports may have changed. `composition` begins the message, e.g. `A quorum`.
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

import type { LockDriver } from '../core/driver.ts'
import { LeaseholdError } from '../core/errors.ts'

/** Locks in a file. Being written. */
export function sqlite(_options: { readonly file?: string } = {}): LockDriver {
  throw new LeaseholdError('UNSUPPORTED', 'The sqlite driver is being written.')
}

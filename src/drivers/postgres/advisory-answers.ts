import type { Claim, ClaimStatus } from '../../core/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'

export const released: ClaimStatus = { state: 'absent', reason: 'released' }
export const refused: ClaimStatus = { state: 'absent', reason: 'refused' }
export const unknown: ClaimStatus = { state: 'absent', reason: 'unknown' }
export const connectionLost: ClaimStatus = {
  state: 'absent',
  reason: 'evicted',
  detail: 'the connection to the database was lost',
}

/** Two names with one 64-bit key: told, and not granted. */
export function collision(claim: Claim, other: string): ClaimStatus {
  const what = `${JSON.stringify(claim.key)} and ${JSON.stringify(other)} have the same 64-bit key.`
  const error = new LeaseholdError('INVALID', `${what} Rename one of them, or use leasehold/postgres.`, {
    key: claim.key,
  })
  return { state: 'unknown', error }
}

import type { ClaimStatus } from '../../core/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'

/** The word of a node that must not be counted, but is worth knowing. To all who count it is unknown. */
export class Uncounted extends LeaseholdError {
  readonly said: ClaimStatus | undefined

  constructor(message: string, said: ClaimStatus | undefined, retryAfterMs?: number) {
    super('UNAVAILABLE', message, { reason: 'not-voting', ...(retryAfterMs !== undefined && { retryAfterMs }) })
    this.said = said
  }
}

/** What the node said, counted or not. */
export function saidBy(status: ClaimStatus): ClaimStatus {
  const said = status.state === 'unknown' && status.error instanceof Uncounted ? status.error.said : undefined
  return said === undefined ? status : saidBy(said)
}

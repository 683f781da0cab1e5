import type { Standing } from '../../core/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'

/** The word of a node that must not be counted, but is worth knowing. To all who count it is unknown. */
export class Uncounted extends LeaseholdError {
  readonly said: Standing | undefined

  constructor(message: string, said: Standing | undefined, retryAfterMs?: number) {
    super('UNAVAILABLE', message, { reason: 'not-voting', ...(retryAfterMs !== undefined && { retryAfterMs }) })
    this.said = said
  }
}

/** What the node said, counted or not. */
export function saidBy(standing: Standing): Standing {
  const said = standing.state === 'unknown' && standing.error instanceof Uncounted ? standing.error.said : undefined
  return said === undefined ? standing : saidBy(said)
}

/** How letting go went. Never an error: a lease that cannot be given back ends by itself. */
export interface ReleaseResult {
  readonly released: boolean
  /**
   * If not: `already-released`, `entered-again`, `converted`, `handed-off`, `lost`, `unavailable`, or the store's word
   * (`expired`, `evicted`, `max-hold` …).
   */
  readonly reason?: string
}

export const alreadyReleased: ReleaseResult = { released: false, reason: 'already-released' }
export const stillEntered: ReleaseResult = { released: false, reason: 'entered-again' }

import { inTime } from '../../core/time/bounded.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { SingleFlight } from '../../core/time/single-flight.ts'
import type { ServerMetrics } from './metrics.ts'
import type { StoreAccess } from './store-facade.ts'

const withinMs = 2000
/** Health checks need no token: one answer serves all calls within this time. */
const trustedMs = 1000

/** Whether the store answers. */
export class Health {
  readonly #store: Pick<StoreAccess, 'list'>
  readonly #metrics: ServerMetrics
  readonly #checking = new SingleFlight(() => this.#check())
  #checkedAt = -Infinity
  #up = true

  constructor(store: Pick<StoreAccess, 'list'>, metrics: ServerMetrics) {
    this.#store = store
    this.#metrics = metrics
  }

  /** Never rejects. */
  async isUp(): Promise<boolean> {
    return performance.now() - this.#checkedAt < trustedMs ? this.#up : this.#checking.opened()
  }

  async #check(): Promise<boolean> {
    try {
      await inTime(withinMs, this.#store.list({ key: 'leasehold/healthz', limit: 1 }), timedOut)
      this.#up = true
    } catch {
      this.#up = false
    }
    this.#checkedAt = performance.now()
    this.#metrics.storeUp = this.#up
    return this.#up
  }
}

function timedOut(milliseconds: number): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', `The store has not answered for ${milliseconds} ms.`, {
    reason: 'no-answer',
  })
}

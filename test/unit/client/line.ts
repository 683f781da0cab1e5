import type { LockDriver, Request, Standing } from '../../../src/core/driver.ts'
import { LeaseholdError } from '../../../src/core/errors.ts'
import type { World } from '../../support/world.ts'
import type { SimulatedProcess } from './simulated-process.ts'

/** What may become of anything on its way. */
export interface Weather {
  readonly delayMs: () => number
  /** Nothing is sent, and that is known. */
  readonly refuses: () => boolean
  readonly loses: () => boolean
  /** A request arrives twice. */
  readonly repeats: () => boolean
}

/** How long a process waits for an answer before it calls the outcome unknown. */
const patienceMs = 400

/**
 * The way of one process to a store and back. What is late arrives all the same, long after it was given up, and in any
 * order.
 */
export function lineTo(store: LockDriver, world: World, process: SimulatedProcess, weather: Weather): LockDriver {
  const later = (action: () => void): void => void world.at(weather.delayMs(), action)

  const send = (requests: readonly Request[]): Promise<readonly Standing[]> =>
    new Promise((resolve, reject) => {
      const failure = (what: string): LeaseholdError => new LeaseholdError('UNAVAILABLE', what, { reason: 'network' })
      if (weather.refuses()) return later(() => process.enter(() => reject(failure('Nothing was sent.'))))
      const arrive = async (): Promise<void> => {
        const standings = await store.send(requests)
        if (!weather.loses()) later(() => process.enter(() => resolve(standings)))
      }
      const copies = weather.repeats() ? 2 : 1
      if (!weather.loses()) later(() => Array.from({ length: copies }, arrive))
      const unknown = (): Standing => ({ state: 'unknown', error: failure('There was no answer.') })
      process.environment.timer(patienceMs, () => resolve(requests.map(unknown)))
    })

  return {
    name: 'memory',
    supports: store.supports,
    open: async () => {},
    send,
    list: (query) => store.list(query),
    listen: (heard) =>
      store.listen?.((key, id, news) => {
        if (!weather.loses()) later(() => process.enter(() => heard(key, id, news)))
      }) ?? { [Symbol.dispose]: () => {} },
    close: async () => {},
  }
}

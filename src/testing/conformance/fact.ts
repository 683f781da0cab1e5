import type { EvictRule, Supports } from '../../core/contract/driver.ts'
import type { Stage } from './stage.ts'

/** What a fact needs beyond a plain exclusive lock: the test is registered only for stores that have it. */
export type Need =
  | 'shared'
  | 'limit'
  | 'range'
  | 'queue'
  | 'push'
  | 'priority'
  | 'convert'
  | 'grace'
  | 'maxHold'
  | 'fence'
  /** Some way of turning holders out, and so also by fence. */
  | 'evict'
  | `evict ${EvictRule}`
  /** The bench can restart its store with its data. */
  | 'restart'
  /** The bench can restart its store without its data. */
  | 'empty'

/** Registers one test, titled as the fact it shows. */
export type Fact = (title: string, needs: readonly Need[], body: (stage: Stage) => Promise<void>) => void

/** What a bench can do beyond its driver. */
export interface BenchCan {
  readonly restart: boolean
  readonly empty: boolean
}

export function isMet(need: Need, supports: Supports, can: BenchCan): boolean {
  if (need === 'restart' || need === 'empty') return can[need]
  if (need === 'evict') return supports.evict.length > 0
  if (need.startsWith('evict ')) return supports.evict.includes(need.slice('evict '.length) as EvictRule)
  return supports[need as keyof Supports] === true
}

import type { Supports } from '../../core/driver.ts'
import type { Company } from '../client/company.ts'

/** What a store must have for a fact to be told of it. */
export type Need = 'shared' | 'limit' | 'queue' | 'convert' | 'priority' | 'grace' | 'maxHold' | 'preempt' | 'handOff'

/** Registers one test of what is built on locks, titled as the fact it shows. */
export type PrimitiveFact = (title: string, needs: readonly Need[], body: (company: Company) => Promise<void>) => void

export function isMet(need: Need, supports: Supports): boolean {
  if (need === 'preempt') return supports.evict.includes('lower-priority')
  return need === 'handOff' ? supports.handOff !== false : supports[need]
}

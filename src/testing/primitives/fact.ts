import type { LockDriver } from '../../core/contract/driver.ts'
import type { ClientGroup } from '../client/client-group.ts'

type Ability =
  | 'shared'
  | 'limit'
  | 'queue'
  | 'convert'
  | 'priority'
  | 'grace'
  | 'maxHold'
  | 'preempt'
  | 'evict'
  | 'force'
  | 'handOff'
  | 'deadlocks'

/** What a store must support, or must not, for a fact to apply: a store refuses what it does not support. */
export type PrimitiveNeed = Ability | `no ${Ability}`

/** Registers one test of what is built on locks, titled as the fact it shows. */
export type PrimitiveFact = (
  title: string,
  needs: readonly PrimitiveNeed[],
  body: (group: ClientGroup) => Promise<void>,
) => void

export function hasAbility(need: PrimitiveNeed, driver: LockDriver): boolean {
  if (need.startsWith('no ')) return !has(need.slice('no '.length) as Ability, driver)
  return has(need as Ability, driver)
}

function has(ability: Ability, driver: LockDriver): boolean {
  const { supports } = driver
  if (ability === 'deadlocks') return supports.queue || driver.shareWaits !== undefined
  if (ability === 'preempt') return supports.evict.includes('lower-priority')
  if (ability === 'evict') return supports.evict.length > 0
  if (ability === 'force') return supports.evict.includes('all')
  return ability === 'handOff' ? supports.lifetime !== 'connection' : supports[ability]
}

import type { HistoryEvent } from '../../../src/testing/index.ts'
import type { World } from '../../support/world.ts'
import type { Weather } from './line.ts'
import type { SimulatedProcess } from './simulated-process.ts'

/** Mostly quick; at times slow, lost, repeated, or refused. */
export function weatherOf(world: World, storms: () => boolean): Weather {
  // Some lines are worse than others.
  const badness = world.chance(0.3) ? 4 : 1
  const happens = (share: number): boolean => storms() && world.chance(share * badness)
  return {
    delayMs: () => (happens(0.04) ? world.between(100, 3000) : storms() ? world.between(0, 8) : 1),
    refuses: () => happens(0.02),
    loses: () => happens(0.03),
    repeats: () => happens(0.03),
  }
}

/** Stops the process for a while, again and again, and at times kills it. */
export function afflict(
  world: World,
  client: string,
  process: SimulatedProcess,
  storms: () => boolean,
  events: HistoryEvent[],
): void {
  const again = (): void => {
    if (!storms()) return
    if (world.chance(0.2)) {
      events.push({ type: 'crash', at: world.now, client })
      return process.kill()
    }
    events.push({ type: 'pause', at: world.now, client })
    process.stopFor(world.between(50, 2500))
    world.at(world.between(3000, 9000), again)
  }
  if (storms()) world.at(world.between(500, 9000), again)
}

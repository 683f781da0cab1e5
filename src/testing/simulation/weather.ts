import type { HistoryEvent } from '../history/event.ts'
import type { World } from './world.ts'
import type { Weather } from './network.ts'
import type { SimulatedProcess } from './simulated-process.ts'

/** Mostly quick; at times slow, lost, repeated, or refused. */
export function weatherOf(world: World, storms: () => boolean, gale = false): Weather {
  // Some lines are worse than others.
  const badness = gale || world.chance(0.3) ? 4 : 1
  const happens = (share: number): boolean => storms() && world.chance(share * badness) && world.strikes()
  return {
    delayMs: () => (happens(0.04) ? world.between(100, 3000) : storms() ? world.between(0, 8) : 1),
    refuses: () => happens(0.02),
    loses: () => happens(0.03),
    repeats: () => happens(0.03),
  }
}

/** Stops the process for a while, again and again, or only one of its threads, and at times kills it. */
export function injectFaults(
  world: World,
  client: string,
  process: SimulatedProcess,
  storms: () => boolean,
  events: HistoryEvent[],
  { thread, gale = false }: { readonly thread?: SimulatedProcess | undefined; readonly gale?: boolean } = {},
): void {
  const again = (): void => {
    if (!storms()) return
    const kills = world.chance(gale ? 0.05 : 0.2)
    const next = (): void => void world.at(gale ? world.between(600, 1800) : world.between(3000, 9000), again)
    if (!world.strikes()) return next()
    if (kills) {
      events.push({ type: 'crash', at: world.now, client })
      thread?.kill()
      return process.kill()
    }
    events.push({ type: 'pause', at: world.now, client })
    const forMs = world.between(50, 2500)
    const which = thread === undefined ? 'both' : whichThread(world, gale)
    if (which !== 'second') process.stopFor(forMs)
    if (which !== 'main') thread?.stopFor(forMs)
    next()
  }
  if (storms()) world.at(world.between(500, 9000), again)
}

/** Mostly the main thread, which a program may block; in a gale mostly both, so that no thread repairs what a late request did. */
function whichThread(world: World, gale: boolean): 'main' | 'second' | 'both' {
  if (gale && world.chance(0.7)) return 'both'
  return world.chance(0.6) ? 'main' : world.chance(0.5) ? 'second' : 'both'
}

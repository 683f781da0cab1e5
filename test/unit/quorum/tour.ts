import { createLocks } from '../../../src/index.ts'
import type { LockDriver } from '../../../src/core/contract/driver.ts'
import { quorum as realQuorum } from '../../../src/drivers/quorum/driver.ts'
import { checkHistory, type HistoryEvent, type HistoryReport } from '../../../src/testing/index.ts'
import { NodeStore, type Weather } from './node-store.ts'
import { World } from '../../../src/testing/simulation/world.ts'

export interface TourOptions {
  readonly seed: number
  readonly nodes?: number
  readonly clients?: number
  readonly ms?: number
  /** A planted fault: another quorum, another vote, another way to the nodes. */
  readonly quorum?: typeof realQuorum
  readonly votesAfterMs?: number
  readonly link?: (driver: LockDriver) => LockDriver
  /** Is given what happened, by true time. */
  readonly onEvents?: (events: readonly HistoryEvent[]) => void
}

export const ttlMs = 1000

/**
 * Plays clients that want one lock, on nodes that fail in every way they can, and checks what the clients saw. True
 * time judges, while every clock has a rate of its own.
 */
export async function tour(options: TourOptions): Promise<HistoryReport> {
  const { seed, nodes = 3, clients = 3, ms = 30_000, link = (driver) => driver } = options
  const world = new World(seed)
  const events: HistoryEvent[] = []
  const stores = Array.from({ length: nodes }, (_, place) => {
    const rate = world.clockRate()
    return new NodeStore(world, { rate, aheadMs: place === 0 ? 0 : world.between(0, 1500) })
  })
  // A store that has just been set up has forgotten nothing, but nobody can know that.
  await world.pass(4000)
  const until = world.now + ms
  const runs = Array.from({ length: clients }, (_, number) => {
    const cutUntil = stores.map(() => 0)
    isolate(world, cutUntil, until)
    const drivers = stores.map((store, place) =>
      link(store.link(weatherOf(world, () => world.now < (cutUntil[place] ?? 0)))),
    )
    const rate = world.clockRate()
    const environment = world.environment(rate)
    const driver = (options.quorum ?? realQuorum)(drivers, {
      votesAfter: options.votesAfterMs ?? 2000,
      answerWithin: 100,
      environment,
    })
    return play(world, `client-${number}`, driver, environment, until, events)
  })
  for (const store of stores) injectFaults(world, store, until)
  await world.run(Promise.all(runs))
  options.onEvents?.(events)
  return checkHistory(events, { fair: false })
}

/** Mostly quick; at times slow, lost, or worse: carried out without a reply. */
function weatherOf(world: World, isCut: () => boolean): Weather {
  return {
    delayMs: () => (world.chance(0.01) ? world.between(50, 1200) : world.between(0, 8)),
    losesRequest: () => isCut() || world.chance(0.01),
    losesReply: () => world.chance(0.02),
  }
}

/** Cuts one client off from some of the nodes, again and again. */
function isolate(world: World, cutUntil: number[], until: number): void {
  const again = (): void => {
    if (world.now >= until) return
    const forMs = world.between(300, 3000)
    for (const place of cutUntil.keys()) if (world.chance(0.6)) cutUntil[place] = world.now + forMs
    world.at(world.between(3000, 10_000), again)
  }
  world.at(world.between(0, 10_000), again)
}

/** Stops the node, takes it away, or brings it back without its data, again and again. */
function injectFaults(world: World, store: NodeStore, until: number): void {
  const again = (): void => {
    if (world.now >= until) return
    const kind = world.between(0, 3)
    const forMs = world.between(50, 1500)
    if (kind === 0) store.restartEmpty()
    if (kind === 1) store.stopFor(forMs)
    if (kind === 2) {
      store.down = true
      world.at(forMs, () => (store.down = false))
    }
    if (kind === 3) {
      store.down = true
      store.restartEmpty()
      world.at(forMs, () => (store.down = false))
    }
    world.at(world.between(5000, 15_000), again)
  }
  world.at(world.between(0, 15_000), again)
}

async function play(
  world: World,
  client: string,
  driver: LockDriver,
  environment: ReturnType<World['environment']>,
  until: number,
  events: HistoryEvent[],
): Promise<void> {
  const locks = await createLocks({ driver, environment })
  await world.wait(world.between(0, 50))
  for (let turn = 0; world.now < until; turn += 1) {
    const attempt = `${client}/${turn}`
    events.push({ type: 'acquire', at: world.now, client, attempt, key: 'k', mode: 'exclusive' })
    try {
      const lease = await locks.acquire('k', { ttl: ttlMs, wait: world.between(10, 1500) })
      events.push({ type: 'granted', at: world.now, attempt, fence: lease.fence })
      const lost = (): void => void events.push({ type: 'lost', at: world.now, attempt })
      lease.signal.addEventListener('abort', lost)
      // By a ttl of another length: a node may hear of it late, behind later ones.
      for (let renewals = world.chance(0.3) ? 3 : 0; renewals > 0; renewals -= 1) {
        await world.wait(world.between(1, 400))
        lease.renew(world.between(200, 1900)).catch(() => {})
      }
      await world.wait(world.chance(0.3) ? world.between(500, 2500) : world.between(1, 100))
      lease.signal.removeEventListener('abort', lost)
      events.push({ type: 'release', at: world.now, attempt })
      if (world.chance(0.9)) await lease.release()
      // Else it dies, as far as the nodes can tell.
      else lease.stopHeartbeat()
    } catch {
      events.push({ type: 'refused', at: world.now, attempt })
    }
    await world.wait(world.between(0, 60))
  }
  await locks.close()
}

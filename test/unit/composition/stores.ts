/** Stores, and what stands between them and clients, in a simulated world. */
import type { KeyPage, LockDriver } from '../../../src/core/contract/driver.ts'
import type { Environment } from '../../../src/core/time/environment.ts'
import type { quorum as realQuorum } from '../../../src/drivers/quorum/driver.ts'
import { overNetwork, type SimulationOptions, type StoreFaults } from '../../../src/testing/index.ts'
import { RestartingStore } from './restarting-store.ts'
import { linkDown } from '../../../src/testing/simulation/network.ts'
import { SimulatedServer, type Way } from './simulated-server.ts'

type Store = SimulationOptions['store']

/** A store that clients reach directly, and that never loses anything. */
export const alone: Store = (clock) => {
  const store = new RestartingStore(clock)
  return { driver: (line) => overNetwork(line, store), list: (query) => store.list(query) }
}

/**
 * A server that is killed and started again, in front of a store that keeps its data (`lasts`) or that is part of it. `hops`:
 * so many servers, one in front of the other.
 */
export function behindServer({ lasts = true, hops = 1 } = {}): Store {
  return (clock, faults) => {
    const { environment } = faults
    const store = new RestartingStore(clock)
    const servers = [new SimulatedServer(store, environment)]
    while (servers.length < hops) {
      const inner = servers.at(-1) as SimulatedServer
      servers.push(new SimulatedServer(inner.driver(directly(environment), environment), environment))
    }
    for (const server of servers) {
      again(faults, 1000, 6000, () => {
        server.kill()
        if (!lasts && server === servers[0]) store.restartEmpty()
        environment.timer(environment.random() * 800, () => server.start())
      })
    }
    const outermost = servers.at(-1) as SimulatedServer
    return {
      driver: (line, own) => outermost.driver(line, own),
      list: (query) => store.list(query),
    }
  }
}

/** A quorum of stores that are away for a while, or come back empty, one or several at a time. */
export function quorumOf(quorum: typeof realQuorum, { nodes = 3, votesAfterMs = 2000, served = false } = {}): Store {
  return (clock, faults) => {
    const { environment } = faults
    const stores = Array.from({ length: nodes }, () => new RestartingStore(clock))
    const hosts = stores.map((store) => ({ store, server: new SimulatedServer(store, environment) }))
    for (const { store, server } of hosts) {
      again(faults, 4000, 12_000, () => {
        if (environment.random() < 0.5) store.restartEmpty()
        if (served) server.kill()
        else store.isDown = environment.random() < 0.6
        environment.timer(environment.random() * 1500, () => {
          store.isDown = false
          if (served) server.start()
        })
      })
    }
    return {
      driver: (line, own) => {
        const drivers = hosts.map(({ store, server }) => (served ? server.driver(line, own) : overNetwork(line, store)))
        return quorum(drivers, { votesAfter: votesAfterMs, answerWithin: 100, environment: own })
      },
      list: (query) => unionOf(stores, query),
    }
  }
}

/** How long a server waits for another. */
const patienceMs = 400

/** From one server to another: nothing is lost on the way, but the other may never answer. */
function directly(environment: Environment): Way {
  const ask = <Answer>(work: () => Answer | Promise<Answer>): Promise<Answer | undefined> =>
    new Promise((resolve, reject) => {
      environment.timer(patienceMs, () => resolve(undefined))
      Promise.resolve().then(work).then(resolve, reject)
    })
  return {
    ask,
    async read(work) {
      const answer = await ask(work)
      if (answer === undefined) throw linkDown('There was no answer.')
      return answer
    },
    deliver: (action) => void environment.timer(1, action),
  }
}

/** Everything that any node holds: nothing may be left on one of them, either. */
async function unionOf(stores: readonly LockDriver[], query: Parameters<LockDriver['list']>[0]): Promise<KeyPage> {
  const pages = await Promise.all(stores.map((store) => store.list(query)))
  return { now: pages[0]?.now ?? 0, keys: pages.flatMap(({ keys }) => keys) }
}

/** Does something again and again, while faults may happen. */
function again({ environment, storms }: StoreFaults, leastMs: number, mostMs: number, action: () => void): void {
  environment.timer(leastMs + environment.random() * (mostMs - leastMs), () => {
    if (!storms()) return
    action()
    again({ environment, storms }, leastMs, mostMs, action)
  })
}

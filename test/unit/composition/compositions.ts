/** The compositions that simulations play. */
import { quorum } from '../../../src/drivers/quorum/driver.ts'
import type { SimulationOptions } from '../../../src/testing/index.ts'
import { alone, behindServer, quorumOf } from './stores.ts'

type Options = Omit<SimulationOptions, 'seed'>

/** Each process has one worker where claims do not queue: a worker that loses a race asks again, and may lose many. */
export const compositions: Readonly<Record<string, Options & { readonly seeds: number }>> = {
  'a store alone, with heartbeat threads': { store: alone, threads: true, seeds: 8 },
  'behind a server that restarts': { store: behindServer(), seeds: 10 },
  'behind a server that restarts, with heartbeat threads': { store: behindServer(), threads: true, seeds: 8 },
  'over two hops, both servers restarting': { store: behindServer({ hops: 2 }), seeds: 8 },
  'a quorum of three that come back empty': { store: quorumOf(quorum), workers: 1, seeds: 12 },
  'such a quorum, with heartbeat threads': { store: quorumOf(quorum), workers: 1, threads: true, seeds: 12 },
  'a quorum of servers that restart': { store: quorumOf(quorum, { served: true }), workers: 1, seeds: 10 },
}

import type { Environment } from '../../core/time/environment.ts'
import type { Hub } from './hub.ts'
import type { MirrorKeeper } from './mirror.ts'
import type { Pace } from './pace.ts'
import type { Published } from './published-runner.ts'
import type { Seats } from './seats.ts'
import type { Signs } from './signs.ts'
import type { ThreadReader } from './thread-reader.ts'
import type { Writers } from './writers.ts'

/** What the parts of one driver share. */
export interface Desk {
  readonly environment: Environment
  readonly hub: Hub
  readonly pace: Pace
  readonly writers: Writers
  readonly reader: ThreadReader
  readonly seats: Seats
  readonly signs: Signs
  readonly mirror: MirrorKeeper
  /** Reads may be stale by less than this. */
  readonly settleMs: number
  readonly publish: ReadonlySet<Published>
  readonly workerId: string | undefined
  /** What came of the work, by fence, for those who say. */
  readonly results: Map<number, string>
}

/** GitHub's time, for people to read. */
export function timeAt({ hub, environment }: Desk): number {
  return hub.clock.earliest(environment.now())
}

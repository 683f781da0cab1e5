import type { Environment } from '../../../core/time/environment.ts'
import type { GithubApi } from '../api/github-api.ts'
import type { MirrorKeeper } from './mirror.ts'
import type { RateBudget } from '../api/rate-budget.ts'
import type { Published } from '../protocol/published-runner.ts'
import type { LocalClaims } from './local-claims.ts'
import type { IssueMarkers } from './issue-markers.ts'
import type { ThreadReader } from './thread-reader.ts'
import type { TrustedAuthors } from '../api/trusted-authors.ts'

/** The parts of one driver, which share each other. */
export interface GithubContext {
  readonly environment: Environment
  readonly api: GithubApi
  readonly rateBudget: RateBudget
  readonly trustedAuthors: TrustedAuthors
  readonly reader: ThreadReader
  readonly localClaims: LocalClaims
  readonly markers: IssueMarkers
  readonly mirror: MirrorKeeper
  /** Reads may be stale by less than this. */
  readonly settleMs: number
  readonly publish: ReadonlySet<Published>
  readonly workerId: string | undefined
  readonly nodeId: string | undefined
  /** Results given to `conclude`, by fence. */
  readonly results: Map<number, string>
}

/** GitHub's time now, at the earliest: good enough for people to read. */
export function timeAt({ api, environment }: GithubContext): number {
  return api.clock.earliest(environment.now())
}

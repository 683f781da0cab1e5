import type { Runner } from '../../core/contract/driver.ts'
import type { Scope } from '../../core/contract/scope.ts'
import type { Duration } from '../../core/time/duration.ts'
import type { AcquireOptions, WaitOptions } from '../options.ts'

/** The options of `locks.elect`. */
export interface ElectionOptions extends Pick<
  AcquireOptions,
  'ttl' | 'lease' | 'heartbeat' | 'priority' | 'grace' | 'maxHold' | 'progress' | 'metadata'
> {
  /** Called when this client has become the leader, and only while it is. */
  readonly onElected?: ((term: Term) => void | Promise<void>) | undefined
  /** Called when this client no longer leads, after `onElected` and never without: it resigned, or was deposed. */
  readonly onDeposed?: ((term: Term, reason: string) => void | Promise<void>) | undefined
  /**
   * How often those who observe ask who leads.
   *
   * @default '1s'
   */
  readonly observeEvery?: Duration | undefined
}

/** One term of a leader. */
export interface Term {
  /** Grows with every election. Pass it with every order the leader gives. */
  readonly fence: number
  /** Aborts when the leadership is lost. */
  readonly signal: AbortSignal
  /** Whether this client still leads, by the clock now. */
  readonly held: boolean
}

/** Who leads. */
export interface Leader {
  /** The process that leads. */
  readonly runner: Runner
  /** The fence: it grows with every election. 0 where sessions do not tell each other theirs: postgres-advisory. */
  readonly term: number
  /** When this leader was elected. */
  readonly since: Date
  /** Whether this client leads. */
  readonly isMe: boolean
}

/**
 * An election, in which any number of clients stand and one of them leads. Iterate over it to observe who leads: first as
 * it is, then every change. Observers never lead. Disposing of it resigns and ends those loops.
 */
export interface Election extends AsyncIterable<Leader | null>, AsyncDisposable {
  /** The lock that the leader holds. */
  readonly scope: Scope
  /** Whether this client leads, by the clock now. */
  readonly isLeader: boolean
  /** The fence of our term; undefined while this client does not lead. */
  readonly term: number | undefined
  /**
   * Stands for election and resolves when elected. From then on it stands again by itself whenever it was deposed, until
   * `resign`. Rejects on timeout or abort, and then no longer stands. While a campaign is under way, another call joins it:
   * its `wait` and `signal` concern that call alone.
   */
  campaign(options?: WaitOptions): Promise<Term>
  /** Leads if nobody does, without waiting. Resolves to whether this client leads now. Does not stand again. */
  tryCampaign(): Promise<boolean>
  /** Stops leading, so that the next candidate leads at once, and no longer stands. Quiet if there is nothing to leave. */
  resign(): Promise<void>
  /** Who leads now; null: nobody. */
  leader(): Promise<Leader | null>
}

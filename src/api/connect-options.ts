import type { OptionNames } from '../core/option-names.ts'
import { locksNames, type LocksOptions } from './create-locks.ts'

/** The options of `connect`. */
export interface ConnectOptions extends LocksOptions {
  /**
   * A stable name for this process. Its runner id is kept in the user's state directory, so that after a restart
   * `onConflict: 'reclaim'` takes its own locks back at once. A name has one live process: a second one is refused.
   *
   * @default an id of this process alone
   */
  readonly runner?: string | undefined
  /**
   * Renews from a thread of its own, over a second connection: leases survive a blocked event loop.
   *
   * @default false
   */
  readonly heartbeatThread?: boolean | undefined
}

/** @internal */
export const connectNames: OptionNames<ConnectOptions> = { ...locksNames, runner: true, heartbeatThread: true }

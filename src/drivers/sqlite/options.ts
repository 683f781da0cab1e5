import type { OptionNames } from '../../core/contract/option-names.ts'
import type { SqliteEnvironment } from './sqlite-environment.ts'

/** Where a lock store keeps its file, and how it treats it. */
export interface SqliteOptions {
  /**
   * The lock file; made when missing.
   *
   * @default `locks.sqlite` in the user's state directory
   */
  readonly file?: string | undefined
  /**
   * True: use the file even on a network file system. Only safe while one machine alone uses it.
   *
   * @default false
   */
  readonly networkFileSystem?: boolean | undefined
  /**
   * How long to wait for a file that other processes keep busy before UNAVAILABLE.
   *
   * @default 5000
   */
  readonly busyTimeoutMs?: number | undefined
  /**
   * True: its claims are made for other processes, as by a server, and live by their ttl alone. False: they end with this
   * process.
   *
   * @default false
   */
  readonly forOthers?: boolean | undefined
  /** What to take from elsewhere than the machine, in tests. */
  readonly surroundings?: Partial<SqliteEnvironment> | undefined
}

/** Every option, so that a misspelt one is refused. @internal */
export const sqliteNames: OptionNames<SqliteOptions> = {
  file: true,
  networkFileSystem: true,
  busyTimeoutMs: true,
  forOthers: true,
  surroundings: true,
}

/** See {@link SqliteOptions.busyTimeoutMs}. @internal */
export const busyTimeoutDefaultMs = 5000

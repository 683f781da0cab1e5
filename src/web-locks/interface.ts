/** The W3C interface, as `lib.dom` has it, so that nobody needs DOM types for it. */

/** Alone, or with others that share. */
export type LockMode = 'exclusive' | 'shared'

/** The options of `request`. */
export interface LockOptions {
  /**
   * Alone, or with others that share.
   *
   * @default 'exclusive'
   */
  readonly mode?: LockMode | undefined
  /**
   * Calls back with null instead of waiting.
   *
   * @default false
   */
  readonly ifAvailable?: boolean | undefined
  /**
   * Takes the lock from its holder, ahead of all who wait. Needs `allowForce`, since the holder may be writing.
   *
   * @default false
   */
  readonly steal?: boolean | undefined
  /** Gives up waiting when it fires. Once the lock is granted it is ignored. */
  readonly signal?: AbortSignal | undefined
}

/** The lock in the callback's hands. */
export interface WebLock {
  readonly name: string
  readonly mode: LockMode
  /** Beyond the W3C interface: pass it with every write, see docs/guards.md. */
  readonly fence: number
  /** Beyond the W3C interface: aborts when the lock is stolen or lost while the callback runs. */
  readonly signal: AbortSignal
}

/** Runs while the lock is held; null only with `ifAvailable`. The lock is let go when what it returns has settled. */
export type LockGrantedCallback<Result> = (lock: WebLock | null) => Result

/** A lock that is held or waited for. */
export interface LockInfo {
  name: string
  mode: LockMode
  /** One `connect` is one client. */
  clientId: string
}

/** What is held and waited for. */
export interface LockManagerSnapshot {
  held: LockInfo[]
  pending: LockInfo[]
}

/** What `navigator.locks` is in a browser. */
export interface WebLockManager {
  /** Resolves with what the callback gave, once the lock is let go. */
  request<Result>(name: string, callback: LockGrantedCallback<Result>): Promise<Awaited<Result>>
  request<Result>(name: string, options: LockOptions, callback: LockGrantedCallback<Result>): Promise<Awaited<Result>>
  /** What is held and waited for now, by all clients. */
  query(): Promise<LockManagerSnapshot>
}

/** The W3C interface, as in `lib.dom`, for programs without DOM types. */

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
   * Takes the lock from its holder, ahead of all waiters. Needs `allowForce`, since the holder may be writing.
   *
   * @default false
   */
  readonly steal?: boolean | undefined
  /** Gives up waiting when the signal aborts. Ignored once the lock is granted. */
  readonly signal?: AbortSignal | undefined
}

/** The lock that the callback gets. */
export interface WebLock {
  readonly name: string
  readonly mode: LockMode
  /** Beyond the W3C interface: pass it with every write, see docs/guards.md. */
  readonly fence: number
  /** Beyond the W3C interface: aborts when the lock is stolen or lost while the callback runs. */
  readonly signal: AbortSignal
}

/** Runs while the lock is held; null only with `ifAvailable`. The lock is released when the promise it returns has settled. */
export type LockGrantedCallback<Result> = (lock: WebLock | null) => Result

/** A lock that is held or waited for. */
export interface LockInfo {
  name: string
  mode: LockMode
  /** One `connect` is one client. */
  clientId: string
}

/** The locks that are held and waited for. */
export interface LockManagerSnapshot {
  held: LockInfo[]
  pending: LockInfo[]
}

/** The interface of `navigator.locks` in a browser. */
export interface WebLockManager {
  /** Resolves with the callback's result, once the lock is released. */
  request<Result>(name: string, callback: LockGrantedCallback<Result>): Promise<Awaited<Result>>
  request<Result>(name: string, options: LockOptions, callback: LockGrantedCallback<Result>): Promise<Awaited<Result>>
  /** The locks that all clients hold and wait for now. */
  query(): Promise<LockManagerSnapshot>
}

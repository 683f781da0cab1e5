/** What `leasehold` exports beside `connect`, which differs where there is no Node: see `web/`. */
export type { ConnectOptions } from './api/create-locks.ts'
export { createLocks, type CreateLocksOptions, type LocksOptions } from './api/create-locks.ts'
export type { Locks } from './api/locks.ts'
export type { Body, Lock, RunArguments } from './api/lock.ts'
export type { ReadWriteLock } from './api/primitives/shared.ts'
export type { Election, ElectionOptions, Leader, Term } from './api/primitives/election.ts'
export type { OnceOptions, OnceResult } from './api/primitives/once.ts'
export type { CompleteOptions, Task, TaskClaim, TaskOptions } from './api/primitives/task.ts'
export type {
  Job,
  JobHandler,
  WorkItems,
  WorkLoop,
  WorkOptions,
  WorkPause,
  WorkRequest,
} from './api/primitives/work.ts'
export type { Semaphore } from './api/primitives/shared.ts'
export type { Lease } from './api/lease.ts'
export type { ReleaseResult } from './api/lease/release-result.ts'
export type { LeaseProof } from './api/lease/proof.ts'
export type { LeaseSet } from './api/lease.ts'
export { leasePresets } from './api/options.ts'
export type { AcquireOptions, ConflictStrategy, WaitOptions, LeasePreset, RetryOptions } from './api/options.ts'
export type { EvictOptions } from './api/operators/operators.ts'
export type { ClaimInfo, ListOptions, LockInfo, LockPage, LockStatus } from './api/operators/inspection.ts'
export type { Statistics } from './api/operators/statistics.ts'
export type { Verified } from './api/lease/proof.ts'
export type { Logger } from './api/client/logger.ts'
export { byteRange, inode, issue, named, path, type Scope, type ScopeLike } from './core/contract/scope.ts'
export { LeaseholdError, type DeadlockedOwner, type ErrorCode, type HolderSummary } from './core/errors.ts'
export type { EventName, LockEventListener, LockEvent, LockEvents } from './api/client/events.ts'
export { parseDuration, type Duration } from './core/time/duration.ts'
export type { Environment, Timer } from './core/time/environment.ts'
export type * from './core/contract/driver.ts'

export { version } from './core/package-version.ts'

/** `navigator.locks` over any store: see docs/web-locks.md. */
export { webLocks } from './web-locks.ts'
export type {
  LockGrantedCallback,
  LockInfo,
  LockManagerSnapshot,
  LockMode,
  LockOptions,
  WebLock,
  WebLockManager,
} from './interface.ts'

import { claimDocument } from '../../api/operators/inspection.ts'
import type { LockInfo } from '../../index.ts'
import type { LockName } from './lock-name.ts'

/** A lock as `--json` shows it. Fields are only ever added. No claim ids: anybody who knows one could release it. */
export function lockJson({ kind, name }: LockName, lock: LockInfo): object {
  const { key, holders, waiters, held, waiting } = lock
  return { kind, name, key, held, waiting, holders: holders.map(claimDocument), waiters: waiters.map(claimDocument) }
}

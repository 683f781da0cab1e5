import type { LockInfo } from '../../index.ts'

/** Locks whose holders or number of waiters changed. A lock that disappeared is reported as free. */
export function changed<Lock extends LockInfo>(
  before: ReadonlyMap<string, Lock>,
  after: ReadonlyMap<string, Lock>,
): Lock[] {
  const altered = [...after].filter(([key, lock]) => stateOf(lock) !== stateOf(before.get(key)))
  const gone = [...before].filter(([key]) => !after.has(key))
  return [
    ...gone.map(([, lock]) => ({ ...lock, holders: [], waiters: [], held: 0, waiting: 0 })),
    ...altered.map(([, lock]) => lock),
  ]
}

function stateOf(lock: LockInfo | undefined): string | undefined {
  return lock && JSON.stringify([lock.holders.map(({ fence }) => fence), lock.held, lock.waiting])
}

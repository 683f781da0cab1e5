import type { Locks, LockInfo } from '../../index.ts'

const locksPerPage = 500

/** Every lock of the namespace whose name begins with `prefix`, a page at a time. */
export async function* everyLock(locks: Locks, prefix?: string): AsyncIterable<LockInfo> {
  let after: string | undefined
  do {
    const page = await locks.list({
      limit: locksPerPage,
      ...(prefix !== undefined && { prefix }),
      ...(after !== undefined && { after }),
    })
    yield* page.locks
    after = page.next
  } while (after !== undefined)
}

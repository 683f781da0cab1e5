import { userInfo } from 'node:os'
import type { Lease, Locks } from '../../index.ts'
import type { Surroundings } from '../command.ts'
import { describeRunner } from '../output/holder-text.ts'
import type { Interruption } from '../interruption.ts'
import type { Wanted } from './run-request.ts'
import { WaitingReport } from './waiting-report.ts'

/** The name of whoever runs this, for those who wait. */
export function userName(): { user?: string } {
  try {
    return { user: userInfo().username }
  } catch {
    return {} // A container may run under a number without a name.
  }
}

/** Takes the lock, and says on standard error whom it waits for and whom it took over from. */
export async function takeVisibly(
  locks: Locks,
  wanted: Wanted,
  { messages }: Surroundings,
  { signal }: Interruption,
): Promise<Lease> {
  const report = wanted.quiet ? undefined : new WaitingReport(locks, wanted, messages)
  const takeover = locks.on('takeover', ({ after }) => {
    report?.granted()
    const who = describeRunner(after.runner)
    messages.say(`the holder before did not let go (${after.how}): ${who}. Its work may be half done.`)
  })
  try {
    const lease = await take(locks, wanted, signal)
    report?.granted()
    return lease
  } finally {
    report?.[Symbol.dispose]()
    takeover[Symbol.dispose]()
  }
}

/** Alone, together with others, or as one of so many. */
function take(locks: Locks, wanted: Wanted, signal: AbortSignal): Promise<Lease> {
  const { scope, shared, permits } = wanted
  const options = { ...wanted.acquire, signal }
  if (permits !== undefined) return locks.semaphore(scope, permits).acquire(options)
  return shared ? locks.readWrite(scope).read(options) : locks.acquire(scope, options)
}

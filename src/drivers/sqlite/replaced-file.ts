import { readdirSync } from 'node:fs'
import path from 'node:path'
import type { ClaimStatus } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { parseStamp } from '../../core/machine/liveness.ts'
import { lookLine } from './inbox.ts'
import { InboxWriter } from './inbox-notifier.ts'
import type { SelfIdentity } from './self-identity.ts'
import { inboxDirectory } from './store-file.ts'

/** Inboxes rung, at most. */
const inboxesMax = 1000

/** The reason of the error for a file that another one has taken the place of. */
export const replacedReason = 'replaced'

/** What is told to the holder of a lock whose file was deleted or replaced. */
export const lostWithFile: ClaimStatus = {
  state: 'absent',
  reason: 'unknown',
  detail: 'The lock file was deleted or replaced.',
}

/** For a file that was deleted, or had another put in its place, while somebody uses it. */
export function replacedFile(file: string, user = 'somebody'): LeaseholdError {
  return new LeaseholdError(
    'UNAVAILABLE',
    `${file} was deleted or replaced while ${user} uses it and may hold locks in the old file. Wait until it has let go of ` +
      `that, which takes a moment, or end it. If this is a copy of a store that is in use, delete ${inboxDirectory(file)}.`,
    { reason: replacedReason },
  )
}

/**
 * Throws {@link replacedFile} while a live process has an inbox beside the file, and rings it to have a look. A driver takes
 * its inbox down only when the holders of locks in the old file have been told that those are lost: nobody else is granted
 * any before. Whether a process in another container lives cannot be told, so it is rung and not waited for.
 */
export function refuseIfInUse(file: string, observer: SelfIdentity): void {
  const { self } = observer
  const inboxes = inboxDirectory(file)
  let user: number | undefined
  for (const name of namesIn(inboxes)) {
    const stamp = parseStamp(name)
    if (stamp === undefined || name === observer.name || observer.isGone(stamp)) continue
    ring(path.join(inboxes, name))
    const isVisible = stamp.boot === self.boot && stamp.namespace === self.namespace && stamp.namespace !== ''
    if (isVisible) user = stamp.pid
  }
  if (user !== undefined) throw replacedFile(file, `process ${user}`)
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory).slice(0, inboxesMax)
  } catch {
    return []
  }
}

function ring(inbox: string): void {
  try {
    const writer = new InboxWriter(inbox)
    void writer.pull(lookLine)
    writer.letGo()
  } catch {
    // It has just been taken down.
  }
}

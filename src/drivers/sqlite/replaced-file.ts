import { readdirSync } from 'node:fs'
import path from 'node:path'
import type { ClaimStatus } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { parseStamp } from '../../core/machine/liveness.ts'
import { checkFileLine } from './inbox.ts'
import { InboxWriter } from './inbox-notifier.ts'
import type { SelfIdentity } from './self-identity.ts'
import { inboxDirectory } from './store-file.ts'

/** Inboxes written to, at most. */
const inboxesMax = 1000

/** The reason of {@link replacedFile}. */
export const replacedReason = 'replaced'

/** The status of a claim that was held in a file since deleted or replaced. */
export const lostWithFile: ClaimStatus = {
  state: 'absent',
  reason: 'unknown',
  detail: 'The lock file was deleted or replaced.',
}

/** The error for a file that was deleted or replaced while `user` still has the old one open. */
export function replacedFile(file: string, user = 'somebody'): LeaseholdError {
  return new LeaseholdError(
    'UNAVAILABLE',
    `${file} was deleted or replaced while ${user} uses it and may hold locks in the old file. Wait until it has let go of ` +
      `that, which takes a moment, or end it. If this is a copy of a store that is in use, delete ${inboxDirectory(file)}.`,
    { reason: replacedReason },
  )
}

/**
 * Throws {@link replacedFile} while a live process has an inbox beside the file, and asks that process to check the file. A driver
 * removes its inbox only after it has notified the holders of locks in the old file that those are lost, so nobody is granted a lock
 * before. Whether a process in another container lives cannot be seen, so it is asked and not waited for.
 */
export function refuseIfInUse(file: string, observer: SelfIdentity): void {
  const { boot, namespace } = observer.stamp
  const inboxes = inboxDirectory(file)
  let user: number | undefined
  for (const name of namesIn(inboxes)) {
    const stamp = parseStamp(name)
    if (stamp === undefined || name === observer.name || observer.isGone(stamp)) continue
    askToCheck(path.join(inboxes, name))
    const isVisible = stamp.boot === boot && stamp.namespace === namespace && namespace !== ''
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

function askToCheck(inbox: string): void {
  try {
    const writer = new InboxWriter(inbox)
    void writer.write(checkFileLine)
    writer.close()
  } catch {
    // The inbox has just been removed.
  }
}

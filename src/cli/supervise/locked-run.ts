import path from 'node:path'
import type { CommandContext } from '../command.ts'
import { holdDuring, type HoldResult } from './hold.ts'
import type { Interruption } from '../interruption.ts'
import type { RunRequest } from './run-request.ts'
import type { StoreChoice } from '../stores/store.ts'
import { takeVisibly, userName } from './taking.ts'

/** How long closing may delay the exit if the store does not answer. Leases that are left expire. */
const closeMaxMs = 1000

/** Takes the lock, runs the command and releases the lock. Rejects if the lock was not granted. */
export async function runLocked(
  request: RunRequest,
  store: StoreChoice,
  context: CommandContext,
  interruption: Interruption,
): Promise<HoldResult> {
  const connecting = context.connect(store.url, {
    namespace: store.namespace,
    metadata: describeOurselves(request),
    allowForce: request.acquire.onConflict === 'force',
    ...(request.runner !== undefined && { runner: request.runner }),
  })
  const locks = await interruption.during(connecting)
  try {
    return await context.messages.withoutWaiting(async () => {
      const lease = await takeVisibly(locks, request, context, interruption)
      return holdDuring(lease, locks, { request, store, context, interruption })
    })
  } finally {
    await Promise.race([locks.close(), new Promise((resolve) => setTimeout(resolve, closeMaxMs).unref())])
  }
}

/** The metadata of our claim, for waiters to read. It leaves out the command's arguments: they may be secret. */
function describeOurselves({ command }: RunRequest): Record<string, unknown> {
  return { command: path.basename(command).slice(0, 100), ...userName() }
}

import path from 'node:path'
import type { CommandContext } from '../command.ts'
import { holdDuring, type HoldResult } from './hold.ts'
import type { Interruption } from '../interruption.ts'
import type { RunRequest } from './run-request.ts'
import type { StoreChoice } from '../stores/store.ts'
import { takeVisibly, userName } from './taking.ts'

/** A store that does not answer delays the exit by no more than this; what is left ends by its ttl. */
const closeMaxMs = 1000

/** Takes the lock, runs the command and lets the lock go. Rejects if there was nothing to run it with. */
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

/** Who holds the lock, for those who wait. The command's arguments stay here: they may be secret. */
function describeOurselves({ command }: RunRequest): Record<string, unknown> {
  return { command: path.basename(command).slice(0, 100), ...userName() }
}

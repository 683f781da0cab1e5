/** Removes idle documents a day after they were written, for servers that do not do it by themselves. */
import type { ObservedDocument } from '../document/observed/observed-document.ts'
import type { JetStreamApi, StreamMessage } from './jetstream-api.ts'

/** An idle document is kept for so long after it was written, and after its last fence. */
export const idleKeptMs = 25 * 3_600_000
/** Messages that one sweep looks at. The oldest come first. */
const messagesMax = 1000

/**
 * A last fence that the clock has not passed yet, as somebody's clock was ahead, must not be forgotten. Never rejects: what stays is
 * found by the next sweep.
 */
export async function sweepBucket(
  api: JetStreamApi,
  {
    stream,
    subjects,
    isClosed,
  }: { readonly stream: string; readonly subjects: string; readonly isClosed: () => boolean },
  documentOf: (message: StreamMessage) => ObservedDocument | undefined,
  keptForMs = idleKeptMs,
): Promise<void> {
  try {
    // The time of the newest message: the server's clock, and never ahead of it.
    const newestAt = await api.newestAt(stream)
    let seq = 1
    for (let looked = 0; looked < messagesMax && !isClosed(); looked += 1) {
      const message = await api.message(stream, { seq, next_by_subj: subjects })
      if (message === undefined || newestAt - Date.parse(message.time) < keptForMs) return
      seq = message.seq + 1
      const lastFence = idleFence(documentOf(message))
      if (lastFence === undefined || newestAt - lastFence / 1000 < keptForMs) continue
      // Only what was read: if the key was written meanwhile, its message has a higher number.
      await api.call(`STREAM.PURGE.${stream}`, { filter: message.subject, seq })
    }
  } catch {
    // The next sweep tries again.
  }
}

/** The last fence of a document of ours in which nobody holds or waits. Undefined: it is none, and must be left alone. */
function idleFence(document: ObservedDocument | undefined): number | undefined {
  if (document?.version !== 1 || !Array.isArray(document.claims) || document.claims.length > 0) return undefined
  return Number.isSafeInteger(document.lastFence) ? document.lastFence : undefined
}

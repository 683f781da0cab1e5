/** Removes idle documents a day after they were written, for servers that do not do it by themselves. */
import type { JetStreamApi, StreamMessage } from './jetstream-api.ts'

const dayAndAnHourMs = 25 * 3_600_000
/** Messages that one sweep looks at. The oldest come first. */
const messagesMax = 1000

/** Never rejects: what stays is found by the next sweep. */
export async function sweepBucket(
  api: JetStreamApi,
  {
    stream,
    subjects,
    isClosed,
  }: { readonly stream: string; readonly subjects: string; readonly isClosed: () => boolean },
  isIdle: (message: StreamMessage) => boolean,
  keptForMs = dayAndAnHourMs,
): Promise<void> {
  try {
    // The time of the newest message: the server's clock, and never ahead of it.
    const newestAt = await api.newestAt(stream)
    let seq = 1
    for (let looked = 0; looked < messagesMax && !isClosed(); looked += 1) {
      const message = await api.message(stream, { seq, next_by_subj: subjects })
      if (message === undefined || newestAt - Date.parse(message.time) < keptForMs) return
      seq = message.seq + 1
      // Only what was read: if the key was written meanwhile, its message has a higher number.
      if (isIdle(message)) await api.call(`STREAM.PURGE.${stream}`, { filter: message.subject, seq })
    }
  } catch {
    // The next sweep tries again.
  }
}

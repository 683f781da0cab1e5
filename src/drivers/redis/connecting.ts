import { withTimeout } from './faults.ts'
import type { Listener } from './transport.ts'

/** What tells how connecting goes on: a client of either library. */
interface Connecting {
  on(event: string, listener: Listener): unknown
  off(event: string, listener: Listener): unknown
}

/**
 * Resolves once the client is ready; rejects with the first thing that keeps it from that, which clients tell only
 * through events while they go on trying, or once that takes longer than `withinMs`. `start` may be answered too, or
 * never.
 */
export async function connecting(
  client: Connecting,
  start: () => Promise<unknown> | undefined,
  withinMs: number,
): Promise<void> {
  let stop: () => void = () => {}
  const told = new Promise<void>((resolve, reject) => {
    const onReady = (): void => resolve()
    const onError = (error: unknown): void => reject(error)
    client.on('ready', onReady)
    client.on('error', onError)
    stop = () => {
      client.off('ready', onReady)
      client.off('error', onError)
    }
  })
  const started = start()
  try {
    await withTimeout(started === undefined ? told : Promise.race([started, told]), withinMs)
  } finally {
    stop()
    // What comes after the first word on it is of no interest.
    told.catch(() => {})
    started?.catch(() => {})
  }
}

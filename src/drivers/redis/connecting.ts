import { replyWithin } from './errors.ts'
import type { ClientEventListener } from './transport.ts'

/** The part of a client of either library that tells whether it could connect. */
interface ConnectingClient {
  on(event: string, listener: ClientEventListener): unknown
  off(event: string, listener: ClientEventListener): unknown
}

/**
 * Resolves once the client is ready. Rejects with its first `error` event, as a client goes on trying and tells why it
 * fails by events only, or when `withinMs` have passed. The promise of `start` counts too, but may never settle.
 */
export async function connecting(
  client: ConnectingClient,
  start: () => Promise<unknown> | undefined,
  withinMs: number,
): Promise<void> {
  let unlisten: () => void = () => {}
  const firstEvent = new Promise<void>((resolve, reject) => {
    const onReady = (): void => resolve()
    const onError = (error: unknown): void => reject(error)
    client.on('ready', onReady)
    client.on('error', onError)
    unlisten = () => {
      client.off('ready', onReady)
      client.off('error', onError)
    }
  })
  const started = start()
  try {
    await replyWithin(started === undefined ? firstEvent : Promise.race([started, firstEvent]), withinMs)
  } finally {
    unlisten()
    // Whichever of the two settles second is of no interest.
    firstEvent.catch(() => {})
    started?.catch(() => {})
  }
}

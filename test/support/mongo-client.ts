import { MongoClient } from 'mongodb'
import { afterAll } from 'vitest'
import { eventually } from './eventually.ts'
import { countFalls } from './mongo-falls.ts'

/**
 * For what a test asks of a server by itself. A server that was killed under wine may leave connections behind that nobody
 * hears: without a limit, whoever asks over one of them waits for ever.
 */
export const withinSeconds = { timeoutMS: 20_000 }

/**
 * A client of what a file of tests has started: both end with the file, and falls are counted in it. Before any hooks of the
 * file, so that those are done first: what a test froze goes on before anybody looks.
 */
export function clientOf(started: { readonly url: string; stop(): Promise<void> }): MongoClient {
  countFalls()
  const client = new MongoClient(started.url)
  afterAll(async () => {
    await client.close()
    await started.stop()
  })
  return client
}

/** Resolves when the server answers. What the client kept of one that is gone is broken, and found to be. */
export function answers(client: MongoClient, withinMs: number): Promise<unknown> {
  const ping = (): Promise<unknown> => client.db().command({ ping: 1 }, { timeoutMS: 1000 })
  return eventually(() => ping().catch(() => undefined), 'the server', withinMs)
}

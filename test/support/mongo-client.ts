import { MongoClient } from 'mongodb'
import { afterAll } from 'vitest'
import { eventually } from './eventually.ts'
import { countFalls } from './mongo-falls.ts'

/**
 * The time limit of a test's own commands. A server that was killed under wine may leave connections behind that nobody
 * reads: without a limit, a command over one of them waits for ever.
 */
export const withinSeconds = { timeoutMS: 20_000 }

/**
 * A client of the server that a test file has started: both end with the file, and crashes are counted. Call it before the
 * file's own hooks, so that those run first at the end: they thaw a frozen server before it is closed.
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

/** Resolves when the server answers. The pings also flush connections to a server that is gone. */
export function answers(client: MongoClient, withinMs: number): Promise<unknown> {
  const ping = (): Promise<unknown> => client.db().command({ ping: 1 }, { timeoutMS: 1000 })
  return eventually(() => ping().catch(() => undefined), 'the server', withinMs)
}

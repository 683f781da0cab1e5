import { MongoClient } from 'mongodb'
import { afterAll } from 'vitest'
import { countFalls } from './mongo-falls.ts'

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

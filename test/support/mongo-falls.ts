/** The Windows build of MongoDB falls over at times, whatever it is asked. That is no fault of ours, and must hide none. */
import { afterEach, beforeEach } from 'vitest'
import { fallsSoFar, lookAfterServers } from './mongo-server.ts'

let earlierFalls = 0

/** Call once in a file that has servers: what happens to one is counted for the test in which it does. */
export function countFalls(): void {
  beforeEach(() => {
    earlierFalls = fallsSoFar()
  })
  afterEach(async ({ task }) => {
    if (task.result?.state === 'fail') await lookAfterServers()
  })
}

/** What the client of MongoDB says of a server that did not answer a test in time. */
const toldByTheClient = /^(MongoOperationTimeoutError: )?Timed out (at|before|during|after|in server)/

/** Vitest 4.1 throws a condition away that is a function, and tries again whatever went wrong. A pattern it asks. */
class AServerFell extends RegExp {
  override test(message: string): boolean {
    // One that answered nothing for seconds may have come round by now. If it was our fault it will be so again.
    return fallsSoFar() > earlierFalls || message.includes("state: 'unknown'") || toldByTheClient.test(message)
  }
}

/** A test is tried again if a server fell over under it, or fell silent, and only then. */
export const againIfItFell = { count: 10, condition: new AServerFell('') }

/** The Windows build of MongoDB crashes now and then by itself. Tests are retried for that, and for nothing else. */
import { afterEach, beforeEach } from 'vitest'
import { fallsSoFar, lookAfterServers } from './mongo-server.ts'

let earlierFalls = 0

/** Call once in a file that has servers: counts a server's crash for the test in which it happens. */
export function countFalls(): void {
  beforeEach(() => {
    earlierFalls = fallsSoFar()
  })
  afterEach(async ({ task }) => {
    if (task.result?.state === 'fail') await lookAfterServers()
  })
}

/** The message of the MongoDB client when a server did not answer a test in time. */
const timedOut = /^(MongoOperationTimeoutError: )?Timed out (at|before|during|after|in server)/

/** Vitest 4.1 ignores a retry condition that is a function, and retries every failure; a RegExp it does evaluate. */
class AServerFell extends RegExp {
  override test(message: string): boolean {
    // A server that hung for seconds may have recovered by now. If the fault is ours, the retry fails too.
    return fallsSoFar() > earlierFalls || message.includes("state: 'unknown'") || timedOut.test(message)
  }
}

/** Retries a test only if a server crashed or hung during it. */
export const againIfItFell = { count: 10, condition: new AServerFell('') }

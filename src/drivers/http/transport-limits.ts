/** A page may have many waiters; more than this is no answer of ours. */
export const replyBytesMax = 256 * 1_048_576
/** A connection that is not used for so long is closed by us, before servers and proxies do it in the midst of a call. */
export const unusedMaxMs = 30_000
export const streamOpensWithinMs = 5000

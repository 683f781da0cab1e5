/** The command line was used wrongly. The message says how to do better. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

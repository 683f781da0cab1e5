/** What a command was to leave behind could not be written. */
export class OutputError extends Error {
  override readonly name = 'OutputError'
}

/** Where a client writes what it does. `console` fits. Claim ids, which are secrets, are never written. */
export interface Logger {
  debug(message: string, details?: object): void
  info(message: string, details?: object): void
  warn(message: string, details?: object): void
}

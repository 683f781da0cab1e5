import { callForeign } from './events.ts'

/** Where a client writes what it does. `console` fits. Claim ids, which are secrets, are never written. */
export interface Logger {
  debug(message: string, details?: object): void
  info(message: string, details?: object): void
  warn(message: string, details?: object): void
}

/** The same logger, whose errors reach nobody: a broken logger must not break a lock. @internal */
export function quietLogger(logger: Logger): Logger {
  const write =
    (level: keyof Logger) =>
    (message: string, details?: object): void =>
      callForeign(
        () => logger[level](message, details),
        () => {},
      )
  return { debug: write('debug'), info: write('info'), warn: write('warn') }
}

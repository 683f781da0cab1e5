import { inTime } from '../../core/time/bounded.ts'

/** The statement never reached the server. */
export class NotSent extends Error {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause })
  }
}

/** The statement was sent, and the server has not answered in time. */
export class TimedOut extends Error {
  constructor(withinMs: number) {
    super(`The database did not answer within ${Math.round(withinMs)} ms`)
  }
}

/** The statement became part of a transaction that was under way on the connection: it counts only if that one commits. */
export class InTransaction extends Error {
  constructor() {
    super('The connection was in the middle of a transaction')
  }
}

/** What `work` resolves to, unless it takes longer than that: then rejects with {@link TimedOut}. */
export function within<Result>(work: PromiseLike<Result>, withinMs: number): Promise<Result> {
  return inTime(withinMs, work, (milliseconds) => new TimedOut(milliseconds))
}

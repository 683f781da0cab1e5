import { inTime } from '../../core/time/bounded.ts'

/** A call was sent, or may have been, and no answer came in time: its outcome is not known. */
export class CallTimedOut extends Error {
  override readonly name = 'CallTimedOut'
}

/** Settles as `call` does, or rejects with {@link CallTimedOut} and this message once `withinMs` have passed. */
export function withTimeout<Result>(
  call: PromiseLike<Result>,
  withinMs: number,
  message: (withinMs: number) => string,
): Promise<Result> {
  return inTime(withinMs, call, (milliseconds) => new CallTimedOut(message(milliseconds)))
}

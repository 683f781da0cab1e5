import type { Environment, Timer } from '../../core/time/environment.ts'
import { timerMaxMs } from '../../core/time/duration.ts'
import type { SignIn } from '../auth/tokens.ts'

interface OpenCall {
  readonly signIn: SignIn
  readonly end: () => void
  timer: Timer | undefined
}

/** The calls and streams under way of those who signed in: each ends when what it signed in with is good no more. @internal */
export class OpenCalls {
  readonly #environment: Pick<Environment, 'wall' | 'timer'>
  readonly #calls = new Set<OpenCall>()

  constructor(environment: Pick<Environment, 'wall' | 'timer'>) {
    this.#environment = environment
  }

  /** Notes a call. `end` is called once at most; when the result is disposed of, never. */
  add(signIn: SignIn, end: () => void): Disposable {
    const call: OpenCall = { signIn, end, timer: undefined }
    this.#calls.add(call)
    if (signIn.expiresAt < Infinity) this.#awaitExpiry(call)
    return { [Symbol.dispose]: () => this.#forget(call) }
  }

  /** Ends those whose credential is not taken any more. */
  endUnless(isTaken: (signIn: SignIn) => boolean): void {
    for (const call of this.#calls) if (!isTaken(call.signIn)) this.#end(call)
  }

  #awaitExpiry(call: OpenCall): void {
    const leftMs = call.signIn.expiresAt - this.#environment.wall()
    if (leftMs <= 0) return this.#end(call)
    call.timer = this.#environment.timer(Math.min(leftMs, timerMaxMs), () => this.#awaitExpiry(call))
  }

  #end(call: OpenCall): void {
    this.#forget(call)
    call.end()
  }

  #forget(call: OpenCall): void {
    call.timer?.cancel()
    this.#calls.delete(call)
  }
}

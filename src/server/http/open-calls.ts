import type { Environment, Timer } from '../../core/time/environment.ts'
import { timerMaxMs } from '../../core/time/duration.ts'
import type { SignIn } from '../auth/tokens.ts'

/** A call or stream that can be ended. @internal */
export interface EndableCall {
  end(): void
}

/** The calls and streams under way of those who signed in: each ends when what it signed in with is good no more. @internal */
export class OpenCalls {
  readonly #environment: Pick<Environment, 'wall' | 'timer'>
  readonly #calls = new Set<OpenCall>()

  constructor(environment: Pick<Environment, 'wall' | 'timer'>) {
    this.#environment = environment
  }

  /** Notes a call, which is ended once at most; when the result is disposed of, never. */
  add(signIn: SignIn, call: EndableCall): Disposable {
    return new OpenCall(this.#calls, signIn, call, this.#environment)
  }

  /** Ends those whose credential is not taken any more. */
  endUnless(isTaken: (signIn: SignIn) => boolean): void {
    for (const call of this.#calls) if (!isTaken(call.signIn)) call.end()
  }
}

class OpenCall implements Disposable {
  readonly #calls: Set<OpenCall>
  readonly signIn: SignIn
  readonly #call: EndableCall
  #timer: Timer | undefined

  constructor(
    calls: Set<OpenCall>,
    signIn: SignIn,
    call: EndableCall,
    environment: Pick<Environment, 'wall' | 'timer'>,
  ) {
    this.#calls = calls
    this.signIn = signIn
    this.#call = call
    calls.add(this)
    if (signIn.expiresAt < Infinity) this.#awaitExpiry(environment)
  }

  #awaitExpiry(environment: Pick<Environment, 'wall' | 'timer'>): void {
    const leftMs = this.signIn.expiresAt - environment.wall()
    if (leftMs <= 0) return this.end()
    this.#timer = environment.timer(Math.min(leftMs, timerMaxMs), () => this.#awaitExpiry(environment))
  }

  end(): void {
    this[Symbol.dispose]()
    this.#call.end()
  }

  [Symbol.dispose](): void {
    this.#timer?.cancel()
    this.#calls.delete(this)
  }
}

import { HttpError } from '../contract/http-error.ts'

/** Whether a call is over. Its signal is made when it is asked for: most calls are answered before anybody could. @internal */
export class CallEnd {
  #controller: AbortController | undefined
  #reason: Error | undefined

  get isOver(): boolean {
    return this.#reason !== undefined
  }

  /** Aborts when the call is over. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  /** Throws why the call may not go on: its token is good no more, though it was when the call came. */
  throwIfRefused(): void {
    if (this.#reason instanceof HttpError) throw this.#reason
  }

  /** Repeatable: the first reason counts. */
  abort(reason: Error): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#controller?.abort(reason)
  }
}

import type { IncomingMessage, ServerResponse } from 'node:http'
import { LeaseholdError } from '../../core/errors.ts'
import { SignInError } from '../auth/authenticator.ts'
import type { SignIn } from '../auth/tokens.ts'
import { CallEnd } from './call-end.ts'
import type { SeenCall } from './dispatch.ts'
import type { ByteHolding, HoldingConnection } from './held-bytes.ts'

/**
 * A call from its head to the end of its answer, as far as it has got. There is one for each stream as long as that lasts, so it has no
 * closures and keeps nothing of what was needed only to begin it. @internal
 */
export class RunningCall {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly connection: HoldingConnection
  readonly seen: SeenCall
  /** Aborts when nobody waits for the answer any more. */
  readonly over = new CallEnd()
  /** What the caller signed in with; undefined where none is asked for. */
  signIn: SignIn | undefined
  /** Who it is to others: the token, or the address of a caller without one. */
  owner = ''
  /** What it takes of its token's share of the calls, and then of the streams. */
  share: Disposable | undefined
  /** Its place among the calls that end with their token. */
  open: Disposable | undefined
  holding: ByteHolding | undefined
  /** What it is answered with, if that goes on. */
  stream: { end(): void } | undefined
  #isClosed = false
  isCarriedOut = false
  /** True: nobody has signed in, though there are tokens, and the connection is not kept for that. */
  isOpen: boolean

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    { connection, address, isOpen }: { connection: HoldingConnection; address: string; isOpen: boolean },
  ) {
    this.request = request
    this.response = response
    this.connection = connection
    this.seen = { route: 'none', address, by: undefined }
    this.isOpen = isOpen
  }

  /** The token that it counts against. */
  get token(): string | undefined {
    return this.signIn?.principal.name
  }

  /** The token is good no more: a call that waits is told to stop, a stream ends. */
  end(): void {
    this.over.abort(new SignInError('The token is not good any more, or has other rights by now.', this.token))
    if (this.stream !== undefined) this.stream.end()
    else if (this.response.headersSent) this.response.end()
  }

  /** Counts what it keeps in memory. If its caller has gone meanwhile, nothing is counted: nobody would end that. */
  hold(holding: ByteHolding): void {
    this.holding = holding
    if (this.#isClosed) holding[Symbol.dispose]()
  }

  /** The caller has all of the answer, or has gone. Repeatable. */
  closed(): void {
    this.#isClosed = true
    this.over.abort(callerGone)
    this.holding?.[Symbol.dispose]()
    // Until the route has answered, the call counts, whether its caller has gone or not.
    if (this.isAnswered) this.letGo()
  }

  /** True: its route is done with it. */
  isAnswered = false

  /** Gives back its place among the calls of its token. Repeatable. */
  letGo(): void {
    this.share?.[Symbol.dispose]()
    this.open?.[Symbol.dispose]()
    this.share = undefined
    this.open = undefined
  }
}

/** Made once: an error for every call, with its stack, costs more than the rest of its end. @internal */
export const callerGone = new LeaseholdError('ABORTED', 'The caller has gone.')

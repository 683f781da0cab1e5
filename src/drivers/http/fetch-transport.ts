import { timeLimit } from '../../core/time/bounded.ts'
import { storeHeader } from '../../core/wire/replies.ts'
import { describeServer, type ServerAddress } from './address.ts'
import { closed, noReply, tooLong, Unsent } from './faults.ts'
import type { OutgoingCall, RawReply, StreamReader, Transport } from './transport.ts'
import { replyBytesMax, streamOpensWithinMs } from './transport-limits.ts'

/** As much of `fetch` as is used here: the global one has it, and so has a binding of a Cloudflare Worker. */
export type Fetch = (
  url: string,
  init: {
    readonly method: 'GET' | 'POST'
    readonly headers: Record<string, string>
    readonly body?: string
    readonly redirect: 'manual'
    readonly signal: AbortSignal
  },
) => Promise<Response>

/** Calls over `fetch`: in browsers, edge workers, and wherever one is given. Connections are the runtime's business. @internal */
export class FetchTransport implements Transport {
  readonly #fetch: Fetch
  readonly #base: string
  readonly #where: string
  /** Calls and streams. */
  readonly #underWay = new Set<AbortController>()
  #closed = false

  constructor(fetch: Fetch, address: ServerAddress, where: string) {
    this.#fetch = fetch
    this.#base = describeServer(address)
    this.#where = where
  }

  async call(call: OutgoingCall): Promise<RawReply> {
    if (this.#closed) throw new Unsent(closed(this.#where))
    const abort = this.#begin()
    const leftMs = Math.max(0, call.deadline - performance.now())
    const limit = timeLimit(leftMs, () => abort.abort(call.timedOut()))
    try {
      return await until(abort.signal, this.#exchange(call, abort.signal))
    } catch (error) {
      throw noReply(this.#where, error, !wasNotConnected(error))
    } finally {
      limit.cancel()
      this.#underWay.delete(abort)
    }
  }

  stream(path: string, headers: Readonly<Record<string, string>>, reader: StreamReader): () => void {
    const abort = this.#begin()
    const opening = setTimeout(() => abort.abort(), streamOpensWithinMs)
    const opened = (): void => {
      clearTimeout(opening)
      reader.opened()
    }
    const ended = (): void => {
      clearTimeout(opening)
      this.#underWay.delete(abort)
      // Also if the server ended it: what is left of the response is let go.
      abort.abort()
      reader.ended()
    }
    void until(
      abort.signal,
      this.#follow(path, headers, { opened, read: (text) => reader.read(text) }, abort.signal),
    ).then(ended, ended)
    return () => abort.abort()
  }

  close(): void {
    this.#closed = true
    for (const abort of this.#underWay) abort.abort(closed(this.#where))
  }

  #begin(): AbortController {
    const abort = new AbortController()
    this.#underWay.add(abort)
    return abort
  }

  #request(method: 'GET' | 'POST', path: string, init: Pick<OutgoingCall, 'headers' | 'body'>, signal: AbortSignal) {
    const { headers, body } = init
    const details = { method, headers: { ...headers }, redirect: 'manual', signal } as const
    return this.#fetch(`${this.#base}${path}`, body === undefined ? details : { ...details, body })
  }

  async #exchange(call: OutgoingCall, signal: AbortSignal): Promise<RawReply> {
    const response = await this.#request(call.method, call.path, call, signal)
    const { headers } = response
    return {
      // A browser does not say where a redirect leads, nor its status.
      status: response.type === 'opaqueredirect' ? 302 : response.status,
      text: await textOf(response, this.#where, signal),
      location: headers.get('location') ?? undefined,
      store: headers.get(storeHeader) ?? undefined,
    }
  }

  async #follow(
    path: string,
    headers: Readonly<Record<string, string>>,
    reader: Pick<StreamReader, 'opened' | 'read'>,
    signal: AbortSignal,
  ): Promise<void> {
    const response = await this.#request('GET', path, { headers, body: undefined }, signal)
    if (response.status !== 200 || signal.aborted) return void response.body?.cancel().catch(() => {})
    reader.opened()
    const decoder = new TextDecoder()
    for await (const piece of piecesOf(response, signal)) reader.read(decoder.decode(piece, { stream: true }))
  }
}

/** The body of a response as text, which is let go of as soon as it is too long. */
async function textOf(response: Response, where: string, signal: AbortSignal): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  let length = 0
  for await (const piece of piecesOf(response, signal)) {
    length += piece.byteLength
    if (length > replyBytesMax) throw tooLong(where)
    text += decoder.decode(piece, { stream: true })
  }
  return text + decoder.decode()
}

/** The pieces of a body, while nobody aborts: not every runtime's streams can be iterated, nor heed the signal. */
async function* piecesOf({ body }: Response, signal: AbortSignal): AsyncIterable<Uint8Array> {
  if (body === null) return
  const reader = (body as ReadableStream<Uint8Array>).getReader()
  const letGo = async (): Promise<void> => {
    try {
      await reader.cancel()
    } catch {
      // It has ended by itself.
    }
  }
  // At once: a body that heeds no signal would keep its connection until its next piece, which may never come.
  signal.addEventListener('abort', () => void letGo(), { once: true })
  try {
    while (!signal.aborted) {
      const { done, value } = await reader.read()
      if (done || isAborted(signal)) return
      yield value
    }
  } finally {
    void letGo()
  }
}

/** Asked by a function, as the compiler believes that what it has seen stays so. */
function isAborted({ aborted }: AbortSignal): boolean {
  return aborted
}

/** Settles as `work` does, or rejects once the signal aborts, whether or not `work` heeds it. */
function until<Result>(signal: AbortSignal, work: Promise<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error)
    // Whoever begins the work may have aborted it already.
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
    work.then(resolve, reject)
  })
}

/**
 * Whether the runtime says that there was no connection, so that nothing can have been sent. Node says it by the code of the
 * cause, Bun by that of the error, Deno in the message of the cause; a browser never does.
 */
function wasNotConnected(error: unknown): boolean {
  const { code, cause } = (error ?? {}) as { readonly code?: string; readonly cause?: Partial<NodeJS.ErrnoException> }
  if (cause?.message?.includes('client error (Connect)') === true) return true
  return ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'].includes(code ?? cause?.code ?? '')
}

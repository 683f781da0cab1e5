import type { FakeGithub, HubRequest } from './fake-github.ts'

/** How a request travels. */
export interface Journey {
  /** Called for each leg; resolves when the request, or its answer, arrives. */
  readonly travel?: (leg: 'there' | 'back', method: string) => Promise<void>
  /** Whether the line is cut: nothing arrives that was sent now, and no answer either. */
  readonly isCut?: () => boolean
}

/** A `fetch` that asks the fake without a network. */
export function asFetch(
  github: FakeGithub,
  { travel = async () => {}, isCut = () => false }: Journey = {},
): typeof globalThis.fetch {
  return async (input, init = {}) => {
    const { signal } = init
    let abort = (): void => {}
    const aborted = new Promise<never>((_, reject) => {
      abort = () => reject(signal?.reason as Error)
    })
    aborted.catch(() => {})
    signal?.addEventListener('abort', abort, { once: true })
    const request: HubRequest = {
      method: init.method ?? 'GET',
      url: input instanceof Request ? input.url : String(input),
      headers: init.headers as Record<string, string>,
      body: typeof init.body === 'string' ? init.body : undefined,
    }
    // Once sent it arrives, whether anybody still waits for the answer or not.
    const exchange = (async () => {
      signal?.throwIfAborted()
      if (isCut()) return new Promise<never>(() => {})
      await travel('there', request.method)
      const response = github.handle(request)
      if (response === undefined || isCut()) return new Promise<never>(() => {})
      await travel('back', request.method)
      const { status, headers, body } = response
      // Only what octokit reads of a Response: a real one reads its body in turns of the event loop of its own.
      return { status, url: request.url, headers: new Headers(headers), text: async () => body } as Response
    })()
    exchange.catch(() => {})
    return Promise.race([exchange, aborted]).finally(() => signal?.removeEventListener('abort', abort))
  }
}

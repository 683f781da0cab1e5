import type { FakeGithub, HubRequest } from './fake-github.ts'

/** How a request travels. */
export interface Journey {
  /** Resolves when the request arrives; and again when its answer does. */
  readonly travel?: () => Promise<void>
}

/** A `fetch` that asks the fake without a network. */
export function asFetch(github: FakeGithub, { travel = async () => {} }: Journey = {}): typeof globalThis.fetch {
  return async (input, init = {}) => {
    const { signal } = init
    const aborted = new Promise<never>((_, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
    })
    aborted.catch(() => {})
    const request: HubRequest = {
      method: init.method ?? 'GET',
      url: input instanceof Request ? input.url : String(input),
      headers: init.headers as Record<string, string>,
      body: typeof init.body === 'string' ? init.body : undefined,
    }
    // Once sent it arrives, whether anybody still waits for the answer or not.
    const exchange = (async () => {
      signal?.throwIfAborted()
      await travel()
      const response = github.handle(request)
      if (response === undefined) return new Promise<never>(() => {})
      await travel()
      const { status, headers, body } = response
      return new Response(body === '' ? null : body, { status, headers })
    })()
    exchange.catch(() => {})
    return Promise.race([exchange, aborted])
  }
}

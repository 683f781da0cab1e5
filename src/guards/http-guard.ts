import type { IncomingMessage, ServerResponse } from 'node:http'
import { LeaseholdError } from '../core/errors.ts'
import { checkOptions, type OptionNames } from '../core/contract/option-names.ts'
import { fenceHeader, readFence, refusedHeader } from './http-fence.ts'
import { memoryGuard, type MemoryGuard } from './memory.ts'
import { isSuperseded } from './superseded.ts'

/** The options of `httpGuard`. */
export interface HttpGuardOptions<Request extends IncomingMessage = IncomingMessage> {
  /**
   * The resource that a request writes; each has its own fence.
   *
   * @default the path of its URL
   */
  readonly resource?: ((request: Request) => string) | undefined
  /**
   * The guard that keeps the fences.
   *
   * @default a new `memoryGuard`, which lasts as long as the process
   */
  readonly guard?: MemoryGuard | undefined
  /**
   * True: lets requests without a fence through, unguarded. False: refuses them with 428.
   *
   * @default false
   */
  readonly optional?: boolean | undefined
}

const httpNames: OptionNames<HttpGuardOptions> = { resource: true, guard: true, optional: true }

/** Middleware as Express, Connect and many others take it. Under plain `node:http` the handler is `next`. */
export type Middleware<Request extends IncomingMessage = IncomingMessage> = (
  request: Request,
  response: ServerResponse,
  next: () => unknown,
) => void

/** Methods that write nothing and so need no fence. Such a request with a fence raises it before it reads. */
const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

/**
 * Refuses writes of stale holders. A request carries its fence as `If-Fence: 118`. Answers 412 (Precondition Failed) if a
 * higher fence has been seen, 428 (Precondition Required) without a fence, 400 if the fence is malformed. A read with a
 * fence raises it: no earlier holder can write the resource any more. Requests for one resource run one after another: each
 * ends when its response is closed and the promise of `next`, if it returns one, has settled.
 *
 * @example
 * ```ts
 * import { createServer } from 'node:http'
 * import { httpGuard } from 'leasehold/guards'
 *
 * const guard = httpGuard()
 * createServer((request, response) => guard(request, response, () => response.end('written'))).listen(8080)
 * ```
 */
export function httpGuard<Request extends IncomingMessage = IncomingMessage>(
  options: HttpGuardOptions<Request> = {},
): Middleware<Request> {
  checkOptions(options, httpNames, 'httpGuard')
  const { resource = pathOf, guard = memoryGuard(), optional = false } = options
  return (request, response, next) => {
    const given = request.headers[fenceHeader.toLowerCase()]
    const needless = optional || safeMethods.has(request.method ?? 'GET')
    if (given === undefined && needless) return void next()
    const fence = readFence(given)
    if (fence === undefined) {
      const status = given === undefined ? 428 : 400
      return refuse(response, status, new LeaseholdError('INVALID', `${fenceHeader} must be the fence of a lease.`))
    }
    guard
      .write(resource(request), fence, () => untilDone(response, next))
      .catch((error: unknown) => {
        if (isSuperseded(error)) refuse(response, 412, error)
        else response.destroy(error as Error)
      })
  }
}

/** Calls the handler, and resolves once its response is closed and its promise has settled. */
async function untilDone(response: ServerResponse, next: () => unknown): Promise<void> {
  // The client hung up while its request was queued: do not write, nobody would read the response.
  if (response.closed) return
  const closed = new Promise<void>((resolve) => {
    response.once('close', resolve)
  })
  // A client that hangs up closes the response, but the handler may still be writing.
  await Promise.all([closed, next()])
}

function refuse(response: ServerResponse, status: number, error: LeaseholdError): void {
  const { code, reason, message } = error
  if (reason !== undefined) response.setHeader(refusedHeader, reason)
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ code, reason, message }))
}

function pathOf(request: IncomingMessage): string {
  return (request.url ?? '').replace(/[?#].*$/s, '')
}

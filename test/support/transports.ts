import type { LockDriver } from '../../src/core/contract/driver.ts'
import { http, type HttpOptions } from '../../src/drivers/http/driver.ts'

/** One of the ways in which the HTTP driver gets to a server. */
export interface NamedTransport {
  readonly name: string
  /** False: connections that nobody uses any more are the runtime's, as those of `fetch` are, and close in their own time. */
  readonly closesIdle: boolean
  /** The driver of `leasehold/http` over this transport. */
  readonly http: (from: string | HttpOptions) => LockDriver
}

export const overNode: NamedTransport = { name: 'node:http', closesIdle: true, http }

export const overFetch: NamedTransport = {
  name: 'fetch',
  closesIdle: false,
  http: (from) => http({ ...(typeof from === 'string' ? { url: from } : from), fetch }),
}

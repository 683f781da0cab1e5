import { createHash } from 'node:crypto'
import type { Supports, Request } from '../../core/contract/driver.ts'
import { protocolVersion, storeHeader } from '../../core/wire/replies.ts'
import type { ServerLimits } from '../contract/limits.ts'
import type { StoreAccess } from './store-facade.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { evictionFault, limitFault, type RequestFault } from '../../core/contract/limits.ts'

interface Described {
  readonly supports: Supports
  readonly fields: object
  readonly headers: Readonly<Record<string, string>>
}

/**
 * What this server says of its store and its limits. Every answer carries a digest of that: what the store supports may
 * change while the server runs, when its driver reconnects to another, and another server may take the place of this one.
 */
export class StoreDescription {
  readonly #store: Pick<StoreAccess, 'name' | 'supports'>
  readonly #limits: ServerLimits
  #described: Described | undefined

  constructor(store: Pick<StoreAccess, 'name' | 'supports'>, limits: ServerLimits) {
    this.#store = store
    this.#limits = limits
  }

  /** What `GET /v1/store` answers, except for the age of the data. */
  get fields(): object {
    return this.#current.fields
  }

  /** For every answer about claims. */
  get headers(): Readonly<Record<string, string>> {
    return this.#current.headers
  }

  get #current(): Described {
    const { name, supports } = this.#store
    if (this.#described?.supports === supports) return this.#described
    const { bodyBytesMax, requestsPerCallMax } = this.#limits
    const fields = {
      protocol: protocolVersion,
      name,
      supports: wireSupports(supports),
      limits: { bodyBytesMax, requestsPerCallMax },
    }
    const digest = createHash('sha256').update(JSON.stringify(fields)).digest('base64url').slice(0, 22)
    this.#described = { supports, fields, headers: { [storeHeader]: digest } }
    return this.#described
  }
}

function wireSupports(supports: Supports): object {
  const { pollingDefault } = supports
  if (pollingDefault === undefined || pollingDefault.attempts !== Infinity) return supports
  return { ...supports, pollingDefault: { ...pollingDefault, attempts: null } }
}

/**
 * Why the store behind cannot carry out the request at this place of a call; undefined if it can. A client of ours asks for
 * nothing of that, unless the store takes less than it did; others get to know.
 */
export function unsupportedIn(request: Request, index: number, supports: Supports): LeaseholdError | undefined {
  const fault = limitFault(request, supports)
  return fault && refusalFor(`requests[${index}]`, fault)
}

/** Refuses an eviction where none can be carried out, rather than to answer that nobody held the lock. */
export function checkEvictable(supports: Supports, where: string): void {
  const fault = evictionFault(supports)
  if (fault !== undefined) throw refusalFor(where, fault)
}

function refusalFor(where: string, fault: RequestFault): LeaseholdError {
  if (fault.code === 'INVALID') return new LeaseholdError('INVALID', `${where}: ${fault.field} ${fault.what}.`)
  return new LeaseholdError('UNSUPPORTED', `${where}: the store behind this server cannot do ${fault.what}.`)
}

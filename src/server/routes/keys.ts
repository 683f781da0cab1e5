import type { KeyPage, ListQuery } from '../../core/contract/driver.ts'
import { knownHeader } from '../../core/wire/wire-protocol.ts'
import { json, type Call, type Route } from '../contract/call.ts'
import { invalid } from '../contract/http-error.ts'
import { requestBounds } from '../../core/contract/bounds.ts'
import { checkListing } from '../auth/rights.ts'
import { keyPageSchema } from '../contract/schemas.ts'
import type { StoreAccess } from '../store/store-facade.ts'

const keysPerPageMax = 1000

/** `GET /v1/keys`: what `list` of a driver is in a process, but for the ids. */
export function keysRoute(store: StoreAccess): Route {
  return {
    method: 'GET',
    path: '/v1/keys',
    right: 'look',
    summary: 'Lists keys with their holders and waiters, a page at a time. Ids are not shown: they are capabilities.',
    schema: {
      query: {
        key: { type: 'string' },
        prefix: { type: 'string' },
        after: { type: 'string' },
        limit: { type: 'integer', minimum: 1, maximum: keysPerPageMax },
      },
      headers: { [knownHeader]: { type: 'string', description: 'An id that the caller knows: it alone is shown.' } },
      answer: keyPageSchema,
    },
    async handle(call) {
      const query = readQuery(call)
      checkListing(query.key ?? query.prefix, call.grant)
      return json(withoutIds(await store.list(query), query.known))
    },
  }
}

function readQuery({ query, headers }: Call): ListQuery {
  const texts: Record<string, string> = {}
  let limit: number | undefined
  for (const [name, value] of query) {
    if (Object.hasOwn(texts, name) || (name === 'limit' && limit !== undefined))
      throw invalid(`${name} is there twice.`)
    if (name === 'limit') limit = readLimit(value)
    else if (name !== 'key' && name !== 'prefix' && name !== 'after') throw invalid(`There is no parameter ${name}.`)
    // Some stores have no such character, and would fail.
    else if (value.includes('\0')) throw invalid(`${name} has a NUL character.`)
    // A store's own place may be longer than a key: the length of the URL bounds it.
    else if (name !== 'after' && value.length > requestBounds.keyBytesMax) throw invalid(`${name} is too long.`)
    else texts[name] = value
  }
  if (texts['key'] !== undefined && texts['prefix'] !== undefined) throw invalid('Give key or prefix, not both.')
  const known = headers[knownHeader.toLowerCase()]
  return {
    ...texts,
    ...(limit !== undefined && { limit }),
    ...(typeof known === 'string' && { known: decoded(known) }),
  }
}

function decoded(known: string): string {
  try {
    return decodeURIComponent(known)
  } catch {
    throw invalid(`${knownHeader} is not well encoded.`)
  }
}

function readLimit(text: string): number {
  const limit = /^\d{1,4}$/.test(text) ? Number(text) : 0
  if (limit >= 1 && limit <= keysPerPageMax) return limit
  throw invalid(`limit must be a whole number from 1 to ${keysPerPageMax}.`)
}

function withoutIds(page: KeyPage, known: string | undefined): KeyPage {
  return {
    ...page,
    keys: page.keys.map(({ key, claims }) => ({
      key,
      claims: claims.map((claim) => (claim.id === known ? claim : { ...claim, id: '' })),
    })),
  }
}

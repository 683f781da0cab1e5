import type { KeyPage, ListQuery } from '../../core/contract/driver.ts'
import { keyPage, knownHeader } from '../../core/wire/replies.ts'
import { json, type Call, type Route } from '../contract/call.ts'
import { invalid } from '../contract/http-error.ts'
import { requestBounds } from '../../core/contract/bounds.ts'
import { checkListing } from '../auth/rights.ts'
import { anyText, optional, string, integer } from '../../core/wire/schema.ts'
import { readQuery } from '../contract/query.ts'
import type { StoreAccess } from '../store/store-facade.ts'

/** Some stores have no NUL character, and would fail: it is refused in any text. */
const query = {
  key: optional(string(requestBounds.keyBytesMax, 0)),
  prefix: optional(string(requestBounds.keyBytesMax, 0)),
  // A store's own position may be longer than a key: the length of the URL bounds it.
  after: optional(anyText),
  limit: optional(integer({ least: 1, most: 1000 })),
}

/** `GET /v1/keys`: what `list` of a driver is in a process, but for the ids. */
export function keysRoute(store: StoreAccess): Route {
  return {
    method: 'GET',
    path: '/v1/keys',
    right: 'read',
    summary: 'Lists keys with their holders and waiters, a page at a time. Ids are not shown: they are capabilities.',
    schema: {
      query,
      headers: { [knownHeader]: { type: 'string', description: 'An id that the caller knows: it alone is shown.' } },
      answer: keyPage,
    },
    async handle(call) {
      const asked = listQuery(call)
      checkListing(asked.key ?? asked.prefix, call.principal)
      return json(withoutIds(await store.list(asked), asked.known))
    },
  }
}

function listQuery(call: Call): ListQuery {
  const { key, prefix, after, limit } = readQuery(query, call.query)
  if (key !== undefined && prefix !== undefined) throw invalid('Give key or prefix, not both.')
  const known = call.headers[knownHeader.toLowerCase()]
  return {
    ...(key !== undefined && { key }),
    ...(prefix !== undefined && { prefix }),
    ...(after !== undefined && { after }),
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

function withoutIds(page: KeyPage, known: string | undefined): KeyPage {
  return {
    ...page,
    keys: page.keys.map(({ key, claims }) => ({
      key,
      claims: claims.map((claim) => (claim.id === known ? claim : { ...claim, id: '' })),
    })),
  }
}

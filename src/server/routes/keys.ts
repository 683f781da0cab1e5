import type { KeyPage, ListQuery } from '../../core/contract/driver.ts'
import { keyPage, knownHeader } from '../../core/wire/replies.ts'
import { json, type Answer, type Call, type Principal, type Route } from '../contract/call.ts'
import { invalid } from '../contract/http-error.ts'
import { requestBounds } from '../../core/contract/bounds.ts'
import type { ServerLimits } from '../contract/limits.ts'
import { readableRunner, runnerOfItsToken } from '../auth/readable-names.ts'
import { checkListing } from '../auth/rights.ts'
import { anyText, optional, string, integer } from '../../core/wire/schema.ts'
import { readQuery } from '../contract/query.ts'
import { bytesPerRequest } from '../auth/rate-limits.ts'
import type { AuthorizedStore } from '../store/authorized-store.ts'

/** Some stores have no NUL character, and would fail: it is refused in any text. */
const query = {
  key: optional(string(requestBounds.keyBytesMax, 0)),
  prefix: optional(string(requestBounds.keyBytesMax, 0)),
  // A store's own position may be longer than a key: the length of the URL bounds it.
  after: optional(anyText),
  limit: optional(integer({ least: 1, most: 1000 })),
  claims: optional(integer({ least: 1, most: 1000 })),
}

/** `GET /v1/keys`: what `list` of a driver is in a process, but for the ids. */
export function keysRoute(
  store: Pick<AuthorizedStore, 'listFor'>,
  { listBytesMax }: Pick<ServerLimits, 'listBytesMax'>,
): Route {
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
      return boundedPage(store, asked, call, listBytesMax)
    },
  }
}

function listQuery(call: Call): ListQuery {
  const { key, prefix, after, limit, claims } = readQuery(query, call.query)
  if (key !== undefined && prefix !== undefined) throw invalid('Give key or prefix, not both.')
  const known = call.headers[knownHeader.toLowerCase()]
  return {
    ...(key !== undefined && { key }),
    ...(prefix !== undefined && { prefix }),
    ...(after !== undefined && { after }),
    ...(limit !== undefined && { limit }),
    ...(claims !== undefined && { claims }),
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

/**
 * A page of at most so many bytes, unless a single claim is longer. The store alone can say where a page ends, so a page that is too
 * long is read again: with fewer keys, and when it has one key, with fewer of its claims.
 */
async function boundedPage(
  store: Pick<AuthorizedStore, 'listFor'>,
  asked: ListQuery,
  call: Call,
  bytesMax: number,
): Promise<Answer> {
  let narrowed = asked
  for (;;) {
    await call.turn()
    const page = readablePage(await store.listFor(call, narrowed), asked.known, call.principal)
    const answer = json(page)
    const length = Buffer.byteLength(answer.body as string)
    // A long page costs as much as many requests.
    call.charge(Math.floor(length / bytesPerRequest))
    const most = Math.max(0, ...page.keys.map(({ claims }) => claims.length))
    // A claim that the caller knows is shown beyond the number asked for.
    const isLeast = page.keys.length <= 1 && (most <= 1 || narrowed.claims === 1)
    if (length <= bytesMax || isLeast) return answer
    // Somewhat less than the part that would fit if all were of one length.
    const part = (bytesMax / length) * 0.8
    const fewer = (count: number): number => Math.max(1, Math.floor(count * part))
    narrowed =
      page.keys.length > 1 ? { ...narrowed, limit: fewer(page.keys.length) } : { ...narrowed, claims: fewer(most) }
  }
}

/** Without ids, except one that the caller knows; and without the names of locks that it may not read. */
function readablePage(page: KeyPage, known: string | undefined, principal: Principal): KeyPage {
  return {
    ...page,
    keys: page.keys.map(({ claims, ...listed }) => ({
      ...listed,
      claims: claims.map((claim) => ({
        ...claim,
        id: claim.id === known ? claim.id : '',
        runner: readableRunner(runnerOfItsToken(claim.runner, principal), listed.key, principal),
      })),
    })),
  }
}

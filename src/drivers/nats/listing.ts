import type { ListQuery } from '../../core/contract/driver.ts'
import { claimsPerPage, firstKeys, pageLimit } from '../kit/paging.ts'
import type { ObservedDocument } from '../document/observed/observed-document.ts'

interface ListedDocument {
  readonly key: string
  readonly document: ObservedDocument
}

/** Keys looked at for one page: many may be idle. */
const lookedAtMax = 1000

/** One page of the keys that are used, in the order of their names: NATS can name all keys, and knows no order. */
export async function bucketPage(
  query: ListQuery,
  store: {
    readonly keys: () => Promise<readonly string[]>
    readonly documents: (keys: readonly string[]) => Promise<readonly (ObservedDocument | undefined)[]>
  },
): Promise<{ readonly documents: readonly ListedDocument[]; readonly next?: string }> {
  const used = async (keys: readonly string[]): Promise<ListedDocument[]> => {
    const documents = await store.documents(keys)
    return keys.flatMap((key, index) => {
      const document = documents[index]
      return document === undefined || document.claims?.length === 0 ? [] : [{ key, document }]
    })
  }
  if (query.key !== undefined) return { documents: await used([query.key]) }
  const limit = pageLimit(query)
  const all = await store.keys()
  const found: ListedDocument[] = []
  let { after = '' } = query
  for (let lookedAt = 0; lookedAt < lookedAtMax;) {
    // One more than fits: it tells whether there is a next page.
    const keys = firstKeys(all, { ...query, after, limit }, () => true)
    const page = keys.slice(0, limit)
    for (const listed of await used(page)) found.push(listed)
    after = page.at(-1) ?? after
    lookedAt += page.length
    const fitting = fittingOf(found, limit)
    if (keys.length === page.length) return found.length > fitting ? cut(found, fitting) : { documents: found }
    if (found.length > fitting || fitting === limit) return cut(found, fitting, after)
  }
  return { documents: found, next: after }
}

/** How many of them fit on one page. */
function fittingOf(found: readonly ListedDocument[], limit: number): number {
  let count = 0
  for (let claims = 0; count < Math.min(found.length, limit) && claims < claimsPerPage; count += 1) {
    const { document } = found[count] as ListedDocument
    claims += Array.isArray(document.claims) ? document.claims.length : 0
  }
  return count
}

function cut(
  found: readonly ListedDocument[],
  limit: number,
  lookedAt = '',
): { readonly documents: readonly ListedDocument[]; readonly next: string } {
  const documents = found.slice(0, limit)
  return { documents, next: found.length > limit ? (documents.at(-1)?.key ?? lookedAt) : lookedAt }
}

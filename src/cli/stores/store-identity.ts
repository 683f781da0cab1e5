import { parseQuorum } from '../../api/stores/quorum-url.ts'
import { identifyStore, type StoreIdentity } from '../../api/stores/store-identity.ts'

const scheme = 'quorum:'

/** The URLs of the stores that a URL names: one, or those of a quorum. */
export function storesIn(url: string): readonly string[] {
  return url.startsWith(scheme) ? parseQuorum(url.slice(scheme.length)).urls : [url]
}

/** Which store a URL names, or which stores a quorum is of. */
export function identifyStores(url: string): StoreIdentity {
  if (!url.startsWith(scheme)) return identifyStore(url)
  const { urls, options } = parseQuorum(url.slice(scheme.length))
  const nodes = urls.map(identifyStore)
  const isWhole = Object.keys(options).length === 0 && nodes.every((node) => node.isWhole)
  return { url: `${scheme}${nodes.map((node) => node.url).join(',')}`, isWhole }
}

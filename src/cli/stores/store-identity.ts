import { parseQuorum } from '../../api/stores/quorum-url.ts'
import { identifyStore, type StoreIdentity } from '../../api/stores/store-identity.ts'

/** Which store a URL names, or which stores a quorum is of. */
export function identifyStores(url: string): StoreIdentity {
  const scheme = 'quorum:'
  if (!url.startsWith(scheme)) return identifyStore(url)
  const { urls, options } = parseQuorum(url.slice(scheme.length))
  const nodes = urls.map(identifyStore)
  const isWhole = Object.keys(options).length === 0 && nodes.every((node) => node.isWhole)
  return { url: `${scheme}${nodes.map((node) => node.url).join(',')}`, isWhole }
}

import path from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * The URL of this module, or of the bundle that it is part of: from there packages are looked up. A bundle in CommonJS has no
 * `import.meta.url`, and only that has `__filename`.
 */
export function ownLocation(): string {
  const here = import.meta as { readonly url?: string }
  const file = typeof __filename === 'string' ? __filename : 'main.js'
  return here.url ?? pathToFileURL(path.resolve(file)).href
}

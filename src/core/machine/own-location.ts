import path from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * From where packages are looked up: this module, or the bundle that it is part of. A bundle in CommonJS has no
 * `import.meta.url`; there it is the program that was started.
 */
export function ownLocation(): string {
  const here = import.meta as { readonly url?: string }
  return here.url ?? pathToFileURL(path.resolve(process.argv[1] ?? 'main.js')).href
}

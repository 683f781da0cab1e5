import path from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * The URL of this module, or of the bundle that it is part of: packages are looked up from there. A bundle in CommonJS has
 * no `import.meta.url`; only such a bundle has `__filename`.
 */
export function ownLocation(): string {
  // In one piece: for `import.meta.url` webpack would write where this module was when the bundle was made.
  const here = import.meta as { readonly url?: string }
  let file = 'main.js'
  try {
    // `typeof __filename` would not do: webpack takes it for known, in an ES module too, where there is none.
    file = __filename
  } catch {
    // An ES module, which has a URL.
  }
  return here.url ?? pathToFileURL(path.resolve(file)).href
}

/** Imports a package at run time. The name is a variable, so that bundlers leave it to the runtime. */
export async function importPackage(name: string): Promise<unknown> {
  return import(/* webpackIgnore: true */ /* @vite-ignore */ name)
}

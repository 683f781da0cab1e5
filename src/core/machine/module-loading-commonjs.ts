/** Takes the place of `module-loading.ts` in the CommonJS build. */
import { pathToFileURL } from 'node:url'

/** The URL of this module: packages are looked up from there. */
export function ownLocation(): string {
  return pathToFileURL(__filename).href
}

/**
 * Imports a package at run time. If `import()` does not find it, `require` may: in the folders of NODE_PATH, where the layers
 * of function services are, and by Yarn without its loader of ES modules. Where Jest runs CommonJS, `import()` does not
 * work: there the package is required, so that Jest's own registry and mocks apply.
 */
export async function importPackage(name: string): Promise<unknown> {
  try {
    return await import(name)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const refused = code?.startsWith('ERR_VM_DYNAMIC_IMPORT') === true || message.includes('--experimental-vm-modules')
    if (!refused && code !== 'ERR_MODULE_NOT_FOUND') throw error
    return asImported(require(name) as object)
  }
}

/** `import()` gives what a CommonJS module exports as `default` too, and clients are looked for there. */
function asImported(required: object): object {
  return 'default' in required && '__esModule' in required ? required : { ...required, default: required }
}

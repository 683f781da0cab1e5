/** Takes the place of `import-package.ts` in the CommonJS build. */

/**
 * A package that is found at run time. Jest runs CommonJS where `import()` has no meaning: there it is required, so that
 * Jest's own registry and mocks apply.
 */
export async function importPackage(name: string): Promise<unknown> {
  try {
    return await import(name)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const refused = code?.startsWith('ERR_VM_DYNAMIC_IMPORT') === true || message.includes('--experimental-vm-modules')
    if (!refused) throw error
    return require(name) as unknown
  }
}

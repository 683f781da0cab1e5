/** Not part of the CommonJS build, which cannot await: the package's entry for ES modules does the same there. */
import { useVitest } from './vitest.ts'

// In another test runner Vitest must not be loaded: both define the same properties of `expect`.
if (process.env['VITEST'] !== undefined) {
  useVitest(
    await import('vitest').catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code?.endsWith('MODULE_NOT_FOUND') === true) return undefined
      throw error
    }),
  )
}

export { useVitest } from './vitest.ts'

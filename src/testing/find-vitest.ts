/** Not part of the CommonJS build, which cannot await: the package's entry for ES modules does the same there. */
import { useVitest } from './vitest.ts'

useVitest(
  await import('vitest').catch((error: unknown) => {
    // Jest leaves out the first part of the code.
    if ((error as NodeJS.ErrnoException).code?.endsWith('MODULE_NOT_FOUND') === true) return undefined
    throw error
  }),
)

export { useVitest } from './vitest.ts'

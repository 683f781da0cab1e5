/** Not part of the CommonJS build, which cannot await: the package's entry for ES modules does the same there. */
import { useVitest } from './vitest.ts'

useVitest(
  await import('vitest').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return undefined
    throw error
  }),
)

export { useVitest } from './vitest.ts'

import { LeaseholdError } from '../core/errors.ts'
import { installCommand } from '../core/machine/runtime.ts'

/**
 * Vitest, where it is installed. Only the suites need it: whoever wants `fakeTime`, `faulty` or `checkHistory` may test with
 * something else. Tests must be registered at once, so it cannot be loaded when a suite is called.
 */
type Vitest = typeof import('vitest')

const vitest = await import('vitest').catch((error: unknown) => {
  if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return undefined
  throw error
})

/** For `describe` and `test`, with which every suite begins. */
function missing(): never {
  throw new LeaseholdError(
    'UNSUPPORTED',
    `The suites of leasehold/testing need vitest. Run: ${installCommand(['vitest'], { dev: true })}`,
  )
}

export const describe: Vitest['describe'] = vitest?.describe ?? (missing as unknown as Vitest['describe'])
export const test: Vitest['test'] = vitest?.test ?? (missing as unknown as Vitest['test'])
export const expect: Vitest['expect'] = vitest?.expect ?? (missing as unknown as Vitest['expect'])

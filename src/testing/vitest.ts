/**
 * Vitest, in a process of Vitest. Only the suites need it: `fakeTime`, `faulty` and `checkHistory` also work with
 * another test runner.
 */
import { LeaseholdError } from '../core/errors.ts'
import { installCommand } from '../core/machine/runtime.ts'

type Vitest = typeof import('vitest')

/** For `describe` and `test`, with which every suite begins. */
function missing(): never {
  throw new LeaseholdError(
    'UNSUPPORTED',
    `The suites of leasehold/testing run in Vitest, and must be imported by an ES module. Run: ${installCommand(['vitest'], { dev: true })}`,
  )
}

export let describe = missing as unknown as Vitest['describe']
export let test = missing as unknown as Vitest['test']
export let expect = missing as unknown as Vitest['expect']

/** @internal A suite registers its tests at once, so vitest is loaded before it is called, by the entry of ES modules. */
export function useVitest(vitest: Vitest | undefined): void {
  if (vitest !== undefined) ({ describe, test, expect } = vitest)
}

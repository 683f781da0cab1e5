import { afterAll, beforeAll } from 'vitest'

/**
 * No stacks in the errors of this test file: explorations make very many errors, and the history says what each is about. Afterwards
 * errors have stacks again, as other files run in the same process.
 */
export function withoutStacks(): void {
  let before: number
  beforeAll(() => {
    before = Error.stackTraceLimit
    Error.stackTraceLimit = 0
  })
  afterAll(() => {
    Error.stackTraceLimit = before
  })
}

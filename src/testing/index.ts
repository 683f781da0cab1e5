export type { Bench, Harness } from './bench.ts'
export { conformance } from './conformance.ts'
export { compareWithModel, modelTest } from './model-test.ts'
export type { Counterexample, ModelTestOptions, ModelTestResult } from './model-test.ts'

export type { Bench, Harness } from './bench.ts'
export { conformance } from './conformance.ts'

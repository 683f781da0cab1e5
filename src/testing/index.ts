export type { Bench, Harness } from './bench.ts'
export { conformance } from './conformance.ts'
export { compareWithModel, modelTest } from './model-test.ts'
export type { Counterexample, ModelTestOptions, ModelTestResult } from './model-test.ts'
export { checkHistory, type HistoryOptions, type HistoryReport } from './history.ts'
export type { HistoryEvent } from './history/event.ts'
export { historyLog, readHistory, type HistoryLog } from './history/log.ts'
export type { HistorySummary } from './history/summary.ts'
export type { Violation, ViolationKind } from './history/violation.ts'
export { fakeTime, type FakeTime } from './fake-time.ts'
export { clientConformance } from './client-conformance.ts'
export { primitivesConformance } from './primitives-conformance.ts'
export { faulty, type FaultPlan, type FaultyDriver } from './faults.ts'
export {
  simulate,
  type SimulatedStore,
  type SimulationOptions,
  type SimulationReport,
  type StoreFaults,
} from './simulate.ts'
export { documentsOverNetwork, overNetwork } from './simulation/network.ts'
export type { NetworkLink } from './simulation/network.ts'
/** @internal */
export { useVitest } from './find-vitest.ts'

import type { Bar, Report } from '../../bench/report.ts'
import type { ChaosOutcome } from './run.ts'

/** Beyond its ttl, how long a waiter may take after the last fault. */
const serviceMs = 2000
/** Heaps of short runs are of different sizes; one that leaks doubles. */
const heapGrowthMax = 1.5

/** The figures of a run, and what must hold for it. */
export function reportOf(name: string, outcome: ChaosOutcome): Report {
  const { lost, left, ttlMs, servedAfterMs, faults } = outcome
  const served = servedAfterMs.toSorted((a, b) => a - b)
  const faultCount = Object.values(faults).reduce((total, count) => total + count, 0)
  const bars: Record<string, Bar> = {
    violations: { actual: outcome.violations.length, atMost: 0 },
    'updates lost with the fence': { actual: lost.fenced, atMost: 0 },
    // Otherwise the run was too weak to show anything.
    'updates lost without a fence': { actual: lost.unfenced, atLeast: 1 },
    'last waiter served after ms': { actual: Math.round(served.at(-1) ?? 0), atMost: ttlMs + serviceMs },
    'timers left': { actual: left.timers, atMost: 0 },
    'sockets left': { actual: left.sockets, atMost: 0 },
    'locks left': { actual: left.locks.length, atMost: 0 },
    'files left': { actual: left.other.length, atMost: 0 },
    'heap to first rest': { actual: outcome.heapGrowth, atMost: heapGrowthMax },
  }
  return {
    name,
    figures: {
      rounds: outcome.rounds,
      operations: outcome.operations,
      holds: outcome.holds,
      handOvers: outcome.handOvers,
      faults: faultCount,
      'updates with the fence': outcome.writes.fenced,
      'updates without a fence': outcome.writes.unfenced,
      'writes that the fence refused': outcome.refusedWrites,
      'hand-over p50 ms': outcome.handOverMs.p50,
      'hand-over p99 ms': outcome.handOverMs.p99,
      'hand-over max ms': outcome.handOverMs.max,
      'served after ms, median round': Math.round(served[Math.floor(served.length / 2)] ?? 0),
      ...Object.fromEntries(Object.entries(faults).map(([kind, count]) => [`fault: ${kind}`, count])),
      ...Object.fromEntries(Object.entries(outcome.failures).map(([code, count]) => [`failed: ${code}`, count])),
    },
    bars,
  }
}

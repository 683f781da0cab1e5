/** What must hold of a curve. */
import { median } from '../report.ts'
import { operationNames, timesAtLargest, type Curve, type OperationName } from './curve.ts'

export const barLimits = { times: 3, busyMs: 50, bystanderTimes: 3, lost: 0 } as const

/** A curve by the figures of its bars. */
export interface Judgement {
  /** The operation that grows most, and how many times its cost at the base the largest size costs. */
  readonly worst: OperationName | undefined
  readonly times: number
  /** The longest that a call kept an event loop or the store busy, at any size. */
  readonly busyMs: number
  /** The median of the bystander's p99 while all was quiet: other load on the machine comes and goes. */
  readonly quietP99Us: number
  /** The bystander's p99 at the worst size, divided by its quiet one. */
  readonly bystanderTimes: number
  readonly lost: number
}

export function judge(curve: Curve): Judgement {
  const grown = operationNames
    .map((name) => ({ name, times: timesAtLargest(curve, name) ?? 0 }))
    .toSorted((first, second) => second.times - first.times)
  const { points } = curve
  const quietP99Us = median(points.map((point) => point.quietP99Us))
  const busy = points.flatMap(({ busyFilling, busyWorking }) => [busyFilling, busyWorking])
  return {
    worst: grown[0]?.name,
    times: grown[0]?.times ?? Number.NaN,
    busyMs: Math.max(...busy.map(({ loopMs, storeMs = 0 }) => Math.max(loopMs, storeMs))),
    quietP99Us,
    bystanderTimes: Math.max(...points.map(({ bystanderP99Us }) => bystanderP99Us)) / quietP99Us,
    lost: points.reduce((sum, { lost }) => sum + lost, 0),
  }
}

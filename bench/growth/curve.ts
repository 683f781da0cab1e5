/** What the growth bench measures: curves of points, one curve for each store and dimension. */

export const storeNames = ['memory', 'sqlite', 'redis', 'postgres', 'mongodb', 'etcd'] as const
export type StoreName = (typeof storeNames)[number]

/** In the order of the plots and tables. `poll` renews a claim that waits, `leave` releases one. */
export const operationNames = [
  'acquire',
  'release',
  'renew',
  'queue',
  'poll',
  'leave',
  'hand-over',
  'refuse',
  'list',
] as const
export type OperationName = (typeof operationNames)[number]

/** Microseconds of each operation. */
export type Costs = Partial<Record<OperationName, number>>

/** How long something was kept busy at most, in milliseconds. */
export interface Busy {
  /** The event loop of the process that works, by the processor time it used without a turn. */
  readonly loopMs: number
  /** The store: Redis by its slow log, other servers by the longest answer to one request. Absent: not known, or the store is in the process. */
  readonly storeMs?: number
}

/** What was found with one size in place. */
export interface Point {
  readonly size: number
  /** The lowest tenth of each operation: see docs/growth.md. */
  readonly costs: Costs
  readonly busyFilling: Busy
  readonly busyWorking: Busy
  /** Pairs of acquire and release of another key by another process: just before the operations were measured, and meanwhile. */
  readonly quietP99Us: number
  readonly bystanderP99Us: number
  /** Leases that ended though their process renewed them. */
  readonly lost: number
}

/** One store and one dimension, from the smallest size on. */
export interface Curve {
  readonly store: StoreName
  readonly dimension: string
  /** The day, as YYYY-MM-DD. */
  readonly measuredOn: string
  readonly points: readonly Point[]
  /** Why sizes are missing, if any are. */
  readonly missed?: { readonly fromSize: number; readonly reason: string }
}

/** The size with which larger ones are compared: 10, or the smallest above. */
export function baseOf({ points }: Curve): Point | undefined {
  return points.find(({ size }) => size >= 10)
}

/** How many times as much as at the base an operation costs at the largest size; undefined if it was not measured at both. */
export function timesAtLargest(curve: Curve, operation: OperationName): number | undefined {
  const base = baseOf(curve)?.costs[operation]
  const largest = curve.points.at(-1)?.costs[operation]
  return base === undefined || largest === undefined ? undefined : largest / base
}

/** The slope of cost over size, both as logarithms, from the base on, by least squares: 0 is flat, 1 is linear. */
export function slopeOf(curve: Curve, operation: OperationName): number | undefined {
  const dots = curve.points.flatMap(({ size, costs }): [number, number][] => {
    const cost = costs[operation]
    return size < 10 || cost === undefined ? [] : [[Math.log10(size), Math.log10(cost)]]
  })
  if (dots.length < 2) return undefined
  const meanX = dots.reduce((sum, [x]) => sum + x, 0) / dots.length
  const meanY = dots.reduce((sum, [, y]) => sum + y, 0) / dots.length
  const covariance = dots.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0)
  return covariance / dots.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0)
}

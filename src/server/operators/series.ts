import type { ChangeDocument, SeriesDocument, SeriesPoint } from '../../dashboard/documents.ts'
import { namespaceOf } from '../auth/rights.ts'
import type { Principal } from '../contract/call.ts'
import type { StoreSnapshot } from './changes.ts'

const minuteMs = 60_000
export const minutesKept = 60
/** Namespaces that are counted one by one in a minute. The others are counted together, for those who may read everything. */
const namespacesMax = 200
const others = ''

/** What was seen of a namespace in one minute. */
interface Bucket {
  granted: number
  queued: number
  lost: number
  takeovers: number
  waiting: number
  /** Grants by how long they had waited: by powers of `step`. */
  readonly waits: Map<number, number>
}

/** A bound of a wait's bucket is this much above the one before: a percentile is exact to a fifth. */
const step = 1.2

/** Counts what happens, minute by minute, for an hour, per namespace: so that a reader is shown only what it may read. */
export class Series {
  /** By minute, the oldest first. */
  readonly #minutes = new Map<number, Map<string, Bucket>>()

  /** Counts the changes that a snapshot showed. */
  record(wallMs: number, snapshot: StoreSnapshot, changes: readonly ChangeDocument[]): void {
    const minute = this.#minute(wallMs)
    const waiting = new Map<string, number>()
    for (const { key, claims, waiting: count } of snapshot.keys) {
      const namespace = namespaceOf(key)
      const waiters = count ?? claims.filter(({ state }) => state === 'waiting').length
      if (waiters > 0) waiting.set(namespace, (waiting.get(namespace) ?? 0) + waiters)
    }
    for (const [namespace, count] of waiting) {
      const bucket = bucketOf(minute, namespace)
      bucket.waiting = Math.max(bucket.waiting, count)
    }
    for (const change of changes) countChange(bucketOf(minute, change.namespace), change)
  }

  /** The last hour as a principal may see it, the minute under way last. */
  shownTo(principal: Principal, wallMs: number, only?: string): SeriesDocument {
    const last = Math.floor(wallMs / minuteMs)
    const minutes = Array.from({ length: minutesKept }, (_, index) => last - minutesKept + 1 + index)
    let partial = false
    const points = minutes.map((minute) => {
      const buckets = [...(this.#minutes.get(minute) ?? [])].flatMap(([namespace, bucket]) => {
        if (only !== undefined && namespace !== only) return []
        const prefix = namespace === others ? '' : `${namespace}/`
        if (principal.may('read', prefix)) return [bucket]
        partial ||= namespace !== others && principal.covers(namespace)
        return []
      })
      return pointOf(minute, buckets)
    })
    return { points, partial }
  }

  #minute(wallMs: number): Map<string, Bucket> {
    const minute = Math.floor(wallMs / minuteMs)
    const known = this.#minutes.get(minute)
    if (known !== undefined) return known
    const begun = new Map<string, Bucket>()
    this.#minutes.set(minute, begun)
    // A wall clock that was set back leaves minutes of the future: they go as well.
    for (const kept of this.#minutes.keys()) {
      if (kept <= minute - minutesKept || kept > minute) this.#minutes.delete(kept)
    }
    return begun
  }
}

function bucketOf(minute: Map<string, Bucket>, namespace: string): Bucket {
  const name = minute.has(namespace) || minute.size < namespacesMax ? namespace : others
  let bucket = minute.get(name)
  if (bucket === undefined) {
    bucket = { granted: 0, queued: 0, lost: 0, takeovers: 0, waiting: 0, waits: new Map() }
    minute.set(name, bucket)
  }
  return bucket
}

function countChange(bucket: Bucket, { kind, waitedMs = 0, takeover }: ChangeDocument): void {
  if (kind === 'queued') bucket.queued += 1
  if (kind === 'lost') bucket.lost += 1
  if (kind !== 'granted') return
  bucket.granted += 1
  if (takeover === true) bucket.takeovers += 1
  const at = waitedMs < 1 ? 0 : 1 + Math.floor(Math.log(waitedMs) / Math.log(step))
  bucket.waits.set(at, (bucket.waits.get(at) ?? 0) + 1)
}

function pointOf(minute: number, buckets: readonly Bucket[]): SeriesPoint {
  const sum = (name: 'granted' | 'queued' | 'lost' | 'takeovers' | 'waiting'): number =>
    buckets.reduce((total, bucket) => total + bucket[name], 0)
  const waits = new Map<number, number>()
  for (const bucket of buckets) {
    for (const [at, count] of bucket.waits) waits.set(at, (waits.get(at) ?? 0) + count)
  }
  return {
    at: new Date(minute * minuteMs).toISOString(),
    granted: sum('granted'),
    queued: sum('queued'),
    lost: sum('lost'),
    takeovers: sum('takeovers'),
    waiting: sum('waiting'),
    waitP50Ms: percentile(waits, 0.5),
    waitP99Ms: percentile(waits, 0.99),
  }
}

/** The upper bound of the bucket in which the percentile lies. Undefined: there are no values. */
function percentile(waits: ReadonlyMap<number, number>, part: number): number | undefined {
  const sorted = [...waits].toSorted(([left], [right]) => left - right)
  const total = sorted.reduce((sum, [, count]) => sum + count, 0)
  let seen = 0
  for (const [at, count] of sorted) {
    seen += count
    if (seen >= total * part) return at === 0 ? 0 : Math.round(step ** at)
  }
  return undefined
}

/** Which benches `all` runs, in which order, and how long each may take. */

export interface PlannedBench {
  readonly name: string
  /** Words after the name. */
  readonly words: readonly string[]
  /** Several times what the bench takes on a quiet machine: a bench that takes longer hangs, and is ended. */
  readonly limitMs: number
}

const minuteMs = 60_000

/** Every bench but `growth`, which takes an hour and has a page of its own. */
export const plan: readonly PlannedBench[] = [
  planned('memory', [], 8),
  // Two million pairs on memory: all ten take too long, and with fewer chance would decide.
  planned('heap-growth', ['0.2'], 10),
  planned('embedded', [], 8),
  planned('redis-throughput'),
  planned('redis-latency'),
  planned('redis-contention'),
  planned('redis-renewal'),
  planned('renewal-cost', [], 6),
  planned('deadlock-cost'),
  planned('postgres-throughput'),
  planned('postgres-latency'),
  planned('postgres-contention'),
  planned('etcd'),
  planned('nats'),
  planned('mysql'),
  planned('mongodb', [], 8),
  planned('s3'),
  planned('dynamodb'),
  planned('server'),
]

function planned(name: string, words: readonly string[] = [], minutes = 5): PlannedBench {
  return { name, words, limitMs: minutes * minuteMs }
}

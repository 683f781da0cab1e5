import type { ErrorCode } from '../core/errors.ts'
import type { EventName, LockEvents } from '../api/client/events.ts'

/** A metric. Prometheus and OpenTelemetry publish it under the same name, each in its own spelling. */
export interface Measure {
  readonly name: string
  readonly help: string
  /** The unit for OpenTelemetry, in UCUM notation. */
  readonly unit: string
}

/** A counted event. An event that ends a wait or a hold is also timed. */
export interface CountedEvent extends Measure {
  readonly event: Exclude<EventName, 'waiting'>
  readonly ends?: 'wait' | 'hold'
}

/** All counted events, in the order of publication. */
export const countedEvents: readonly CountedEvent[] = [
  { event: 'acquired', ends: 'wait', name: 'acquired', help: 'Leases granted.', unit: '{lease}' },
  { event: 'released', ends: 'hold', name: 'released', help: 'Leases released by their holder.', unit: '{lease}' },
  { event: 'renewed', name: 'heartbeat_renewed', help: 'Renewals that the store confirmed.', unit: '{renewal}' },
  { event: 'renewal-failed', name: 'heartbeat_failed', help: 'Renewals that failed.', unit: '{renewal}' },
  {
    event: 'takeover',
    name: 'takeovers',
    help: 'Leases granted after a holder that ended uncleanly.',
    unit: '{lease}',
  },
  {
    event: 'stale',
    name: 'stale',
    help: 'Takeovers from a stale holder: silent or dead.',
    unit: '{lease}',
  },
  { event: 'contention', name: 'contentions', help: 'Acquisitions that found the lock held.', unit: '{acquisition}' },
  { event: 'jeopardy', name: 'jeopardy', help: 'Leases that were not renewed in good time.', unit: '{lease}' },
  { event: 'leaving', name: 'leaving', help: 'Leases whose holder was asked to leave.', unit: '{lease}' },
  {
    event: 'lost',
    ends: 'hold',
    name: 'lost',
    help: 'Leases that ended before their holder released them.',
    unit: '{lease}',
  },
  { event: 'passed-on', ends: 'hold', name: 'passed_on', help: 'Leases converted or handed off.', unit: '{lease}' },
  {
    event: 'failed',
    ends: 'wait',
    name: 'failed',
    help: 'Acquisitions without a lease, by code.',
    unit: '{acquisition}',
  },
]

/** The codes an acquisition usually fails with. */
export const usualFailures: readonly ErrorCode[] = ['TIMEOUT', 'HELD', 'ABORTED', 'DEADLOCK', 'UNAVAILABLE']

/** The timed spans, in seconds, with the default bounds of their histograms. The outcome is the event. */
export const timings: Readonly<Record<'wait' | 'hold', Measure & { readonly buckets: readonly number[] }>> = {
  wait: {
    name: 'wait',
    help: 'How long acquisitions took, by how they ended.',
    unit: 's',
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300],
  },
  hold: {
    name: 'hold',
    help: 'How long leases were held, by how they ended.',
    unit: 's',
    buckets: [0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 3600],
  },
}

/** The length of the wait or the hold that an event has ended; undefined if it ends none. */
export function secondsOf(event: LockEvents[EventName]): number | undefined {
  if ('waitMs' in event) return event.waitMs / 1000
  return 'heldMs' in event ? event.heldMs / 1000 : undefined
}

/** The gauges: read whenever metrics are collected. */
export const gauges = {
  leasesHeld: { name: 'leases_held', help: 'Leases this client holds.', unit: '{lease}' },
  heartbeats: { name: 'heartbeats', help: 'Leases of this client that renew by themselves.', unit: '{lease}' },
  pending: { name: 'acquisitions_pending', help: 'Acquisitions of this client under way.', unit: '{acquisition}' },
  remaining: {
    name: 'lease_remaining',
    help: 'Time left of the lease of this client that expires first. No value without a lease.',
    unit: 's',
  },
  locks: {
    name: 'locks',
    help: 'Locks of the namespace with a live lease (active) or an expired one (stale), among the first 10000.',
    unit: '{lock}',
  },
  up: { name: 'up', help: 'Whether the store could be listed just now.', unit: '1' },
} satisfies Record<string, Measure>

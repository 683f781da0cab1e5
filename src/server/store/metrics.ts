import type { Request, ClaimStatus } from '../../core/contract/driver.ts'
import type { Family } from '../../telemetry/exposition.ts'
import type { RejectReason } from '../contract/http-error.ts'

interface CallCount {
  readonly route: string
  readonly status: number
  count: number
  seconds: number
}

interface RequestCount {
  readonly op: Request['op']
  readonly state: ClaimStatus['state']
  count: number
}

/** How many claims there are, how many of them wait, and what they take in memory. */
export interface ClaimTotals {
  readonly claims: number
  readonly waiters: number
  readonly bytes: number
}

/** What the server counts of itself. */
export class ServerMetrics {
  /** Streams are not counted among the calls. */
  callsUnderWay = 0
  streamsUnderWay = 0
  /** Calls that wait for a lock: not counted among the calls either. */
  waitsUnderWay = 0
  storeUp = true
  /** Lines of the audit that were written, and that were dropped. */
  auditLines = 0
  auditDropped = 0
  readonly #calls = new Map<string, CallCount>()
  readonly #requests = new Map<string, RequestCount>()
  readonly #refused = new Map<RejectReason, number>()
  /** What callers make the server keep: bodies and answers. */
  heldBytes: () => number = () => 0
  /** What callers have by this server. */
  claims: () => ClaimTotals = () => ({ claims: 0, waiters: 0, bytes: 0 })
  readonly #dropped = new Map<string, number>()
  readonly #quotaRefused = new Map<string, number>()
  readonly #rateLimited = { token: 0, address: 0 }
  readonly #rateLimitedTokens = new Map<string, number>()

  /** A call has been answered, after so long. */
  callAnswered(route: string, status: number, seconds: number): void {
    const name = `${route} ${status}`
    let entry = this.#calls.get(name)
    if (entry === undefined) this.#calls.set(name, (entry = { route, status, count: 0, seconds: 0 }))
    entry.count += 1
    entry.seconds += seconds
  }

  requestAnswered(op: Request['op'], state: ClaimStatus['state']): void {
    const name = `${op} ${state}`
    let entry = this.#requests.get(name)
    if (entry === undefined) this.#requests.set(name, (entry = { op, state, count: 0 }))
    entry.count += 1
  }

  refused(why: RejectReason): void {
    this.#refused.set(why, (this.#refused.get(why) ?? 0) + 1)
  }

  /** A connection was cut off. */
  dropped(why: string): void {
    this.#dropped.set(why, (this.#dropped.get(why) ?? 0) + 1)
  }

  /** A call, or a request of one, was refused because its token, or its key, has as much as it may have. */
  quotaRefused(quota: string): void {
    this.#quotaRefused.set(quota, (this.#quotaRefused.get(quota) ?? 0) + 1)
  }

  /** A call was refused because its token, or its address, calls too often. */
  rateLimited(by: 'token' | 'address', token?: string): void {
    this.#rateLimited[by] += 1
    if (token === undefined) return
    const count = this.#rateLimitedTokens.get(token)
    if (count !== undefined || this.#rateLimitedTokens.size < tokensMax) {
      this.#rateLimitedTokens.set(token, (count ?? 0) + 1)
    }
  }

  /** The names of tokens are for administrators alone. */
  families({ withTokens = false } = {}): readonly Family[] {
    const calls = [...this.#calls.values()]
    const { claims, waiters, bytes } = this.claims()
    const labelsOf = ({ route, status }: CallCount) => ({ route, status: String(status) })
    return [
      {
        name: 'leasehold_server_calls_total',
        help: 'HTTP calls answered.',
        type: 'counter',
        samples: calls.map((each) => ({ labels: labelsOf(each), value: each.count })),
      },
      {
        name: 'leasehold_server_call_seconds_total',
        help: 'Seconds that HTTP calls took, up to the head of their answer.',
        type: 'counter',
        samples: calls.map((each) => ({ labels: labelsOf(each), value: each.seconds })),
      },
      {
        name: 'leasehold_server_requests_total',
        help: 'Requests to the store, by how the claim stood afterwards.',
        type: 'counter',
        samples: [...this.#requests.values()].map(({ op, state, count }) => ({ labels: { op, state }, value: count })),
      },
      {
        name: 'leasehold_server_refused_calls_total',
        help: 'HTTP calls refused, by why.',
        type: 'counter',
        samples: [...this.#refused].map(([why, value]) => ({ labels: { why }, value })),
      },
      {
        name: 'leasehold_server_rate_limited_calls_total',
        help: 'HTTP calls refused because a token, or an address, called too often.',
        type: 'counter',
        samples: Object.entries(this.#rateLimited).map(([by, value]) => ({ labels: { by }, value })),
      },
      {
        name: 'leasehold_server_dropped_connections_total',
        help: 'Connections that were cut off, by why.',
        type: 'counter',
        samples: [...this.#dropped].map(([why, value]) => ({ labels: { why }, value })),
      },
      {
        name: 'leasehold_server_quota_refusals_total',
        help: 'Calls, and requests of calls, refused because a token or a key had as much as it may have.',
        type: 'counter',
        samples: [...this.#quotaRefused].map(([quota, value]) => ({ labels: { quota }, value })),
      },
      counter('leasehold_server_audit_lines_total', 'Lines of the audit that were written.', this.auditLines),
      counter('leasehold_server_audit_dropped_total', 'Lines of the audit that were dropped.', this.auditDropped),
      ...(withTokens ? [this.#byToken()] : []),
      gauge('leasehold_server_calls_under_way', 'HTTP calls being answered.', this.callsUnderWay),
      gauge('leasehold_server_streams_under_way', 'Event streams being written.', this.streamsUnderWay),
      gauge('leasehold_server_waits_under_way', 'HTTP calls that wait for a lock.', this.waitsUnderWay),
      gauge('leasehold_server_held_bytes', 'Bytes of bodies carried out and answers not read.', this.heldBytes()),
      gauge('leasehold_server_claims', 'Claims that callers have by this server.', claims),
      gauge('leasehold_server_waiters', 'Those of them that wait.', waiters),
      gauge('leasehold_server_claim_bytes', 'Bytes that these claims take, about.', bytes),
      gauge('leasehold_server_store_up', 'Whether the store answered when last asked.', this.storeUp ? 1 : 0),
    ]
  }

  #byToken(): Family {
    return {
      name: 'leasehold_server_token_rate_limited_calls_total',
      help: 'HTTP calls refused because their token called too often, by token.',
      type: 'counter',
      samples: [...this.#rateLimitedTokens].map(([token, value]) => ({ labels: { token }, value })),
    }
  }
}

/** JWTs may bring any number of names. */
const tokensMax = 1000

function counter(name: string, help: string, value: number): Family {
  return { name, help, type: 'counter', samples: [{ labels: {}, value }] }
}

function gauge(name: string, help: string, value: number): Family {
  return { name, help, type: 'gauge', samples: [{ labels: {}, value }] }
}
